"""The sparsity page's exhibit: a metric by region size."""

from __future__ import annotations

from math import inf

import pandas as pd

from skillviz.analysis.necessity import MOST, RECOVERED, GainSize, gain_size, restored_and_left
from skillviz.analysis.size_curve import by_size
from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.plots.sparsity import metric_by_size
from skillviz.plots.theme import localizer_style, state_style
from skillviz.runs.record import RunRecord
from skillviz.show import alt, measures, sentences
from skillviz.show.exhibit import OVER_EXAMPLES, OVER_SEEDS, Exhibit, drawn_once

HEIGHT = 390


Line = tuple[str, str]
"""A localizer, and its settings that are not the default, in words."""
MOST_LINES = 5


@drawn_once
def sizes(
    curve: pd.DataFrame,
    record: RunRecord,
    split: str,
    metric: str,
    main_line: Line,
    theme: str,
    every: bool = False,
    height: int = HEIGHT,
) -> Exhibit:
    """One line per localizer over all runs of a pair; `curve` comes from `measures.pair_curve`.

    The finding is about `main_line`. At most MOST_LINES lines are drawn, including that one, unless `every`.
    """
    points = measures.plug_in_where_mixed(by_size(curve.dropna(subset=["value"]), metric), metric)
    if len(points) and not every:
        first = _first(points, main_line)
        points = points[[line in first for line in _lines(points)]].reset_index(drop=True)
    level = {"finetuned": 1.0, "pretrained": 0.0}
    if metric != RECOVERED:
        level = measures.levels(record, split, metric, measures.is_debiased(points))
    size, crossing = smallest(curve, main_line), None
    if size and size.is_crossed:
        crossing = (size.share, f"{formats.percent(MOST, 0)}<br>of the gain<br>at {formats.share(size.share)}")
    return Exhibit(
        name="sparsity",
        title=f"{metric_row(metric).heading} by region size",
        figure=metric_by_size(
            points, metric, references=level, direct=True, theme=theme, height=height,
            crossing=crossing,
        ),
        reads=sentences.sparsity_reads(points, metric),
        intervals=OVER_SEEDS if points["seeds"].max() > 1 else OVER_EXAMPLES,
        alt=alt.sparsity(points, metric),
        table=points,
        words=("seed", "chance", "recovered"),
        finding=finding(curve, main_line),
    )  # fmt: skip


def line_count(curve: pd.DataFrame) -> int:
    """The number of lines available to draw."""
    return len(curve[["localizer", "settings"]].drop_duplicates())


def smallest(curve: pd.DataFrame, main_line: Line) -> GainSize | None:
    """The smallest size of one line with MOST of the gain; None if fewer than two sizes were scored."""
    rows = curve[(curve["localizer"] == main_line[0]) & (curve["settings"] == main_line[1])]
    return gain_size(restored_and_left(rows, pd.DataFrame()), "grafted", MOST)


def has_gain(curve: pd.DataFrame) -> bool:
    """True if fine-tuning gained anything, so that a region can recover a share of it."""
    return bool(curve.loc[curve["metric"] == RECOVERED, "value"].notna().any())


def finding(curve: pd.DataFrame, main_line: Line) -> str:
    """The smallest region of one line that recovers MOST of the gain, with the range that the intervals allow."""
    gain = f"{formats.percent(MOST, 0)} of the gain"
    if not has_gain(curve):
        return sentences.NO_GAIN
    size, title = smallest(curve, main_line), localizer_style(*main_line).title
    if size is None:
        return f"Fewer than two sizes of {title} have a share of the gain. Start a run with several sizes to see it."
    if size.share == 0:
        return (
            f"**{gain} needs at most {formats.share(size.smallest)} of the parameters**, the smallest size scored "
            f"({title}; the intervals allow {_allowed(size)})."
        )
    if not size.is_crossed:
        allowed = f"the intervals allow {_allowed(size)}" if size.low < inf else "no interval includes it"
        return f"**No size up to {formats.share(size.largest)} reaches {gain}** ({title}; {allowed})."
    return (
        f"**{gain} needs about {formats.share(size.share)} of the parameters** ({title}; the intervals allow "
        f"{_allowed(size)})."
    )


def _allowed(size: GainSize) -> str:
    """`0.4% to 3%`: the sizes whose intervals include the gain, open beyond the scored sizes."""
    if size.low == 0 and size.high == 0:
        return f"below {formats.share(size.smallest)}"
    low = f"below {formats.share(size.smallest)}" if size.low == 0 else formats.share(size.low)
    above = f"above {formats.share(size.largest)}"
    return f"{low} to {formats.share(size.high) if size.high <= size.largest else above}"


def _lines(points: pd.DataFrame) -> list[Line]:
    return list(zip(points["localizer"], points["settings"], strict=True))


def _first(points: pd.DataFrame, main_line: Line) -> list[Line]:
    """`main_line`, then lines of default settings in the order of the table, then the others; MOST_LINES of them."""
    return sorted(dict.fromkeys(_lines(points)), key=lambda line: line != main_line)[:MOST_LINES]


@drawn_once
def necessity(curve: pd.DataFrame, complement: pd.DataFrame, main_line: Line, theme: str) -> Exhibit:
    """The share of the gain that grafts of one line recover, and the share that is left without their regions, by size.

    `curve` and `complement` have the columns of curve.parquet, for this line, one data set and split.
    """
    points = restored_and_left(curve, complement)
    drawn = points.assign(localizer=points["state"], settings="")
    styles = {state: state_style(state) for state in ("grafted", "complement")}
    return Exhibit(
        name="necessity",
        title=f"What the region restores, and what its removal costs: {localizer_style(*main_line).title}",
        figure=metric_by_size(
            drawn, RECOVERED, references={"half of the gain": 0.5}, styles=styles, direct=True, theme=theme
        ),
        reads="the complement is the fine-tuned model with the region back at its pre-trained values. A region is "
        "sufficient where the graft is high, and necessary where the complement is low.",
        intervals=OVER_SEEDS if points["seeds"].max() > 1 else OVER_EXAMPLES,
        alt=_necessity_alt(points),
        table=points.drop(columns="settings", errors="ignore"),
        words=("complement", "recovered"),
        finding=necessity_finding(gain_size(points, "grafted"), gain_size(points, "complement")),
    )


def necessity_finding(restored: GainSize | None, lost: GainSize | None) -> str:
    """The sizes that restore and that cost half of the gain, and which of the two is larger."""
    if restored is None and lost is None:
        return "One size is stored. Start a run with several sizes to see what removing the region costs at each."
    parts = [
        f"{doing} {_share(half)} of the parameters {outcome}."
        for doing, half, outcome in (
            ("Grafting", restored, "restores half of the gain"), ("Removing", lost, "costs half of it"),
        )
        if half is not None
    ]  # fmt: skip
    if restored is not None and lost is not None:
        if lost.low > restored.high:
            parts.append("Removal takes more: other parameters can stand in for part of the region.")
        elif lost.high < restored.low:
            parts.append("Removal takes fewer: the fine-tuned model depends on more than the region alone.")
        elif restored.share == lost.share and not lost.is_crossed:
            parts.append("Both lie outside the stored sizes, so they are not compared.")
        else:
            parts.append("No clear difference between the two sizes.")
    if lost is None:
        parts.append("Removal is stored at one size; start a run with several sizes for its curve.")
    return " ".join(parts)


def _share(half: GainSize) -> str:
    """`**0.3%** (0.2% to 0.5%)`, or the end of the scored sizes."""
    smallest, largest = formats.share(half.smallest), formats.share(half.largest)
    if half.share == 0:
        return f"**at most {smallest}**"
    if not half.is_crossed:
        return f"**more than {largest}**"
    return f"**{formats.share(half.share)}** ({_allowed(half)})"


def _necessity_alt(points: pd.DataFrame) -> str:
    words = []
    for state, rows in points.groupby("state", sort=False):
        rows = rows.sort_values("share")
        ends = [f"{formats.percent(row['value'], 0)} at {formats.share(row['share'])}" for _, row in rows.iterrows()]
        words.append(f"{state_style(str(state)).title} {' and '.join(dict.fromkeys((ends[0], ends[-1])))}")
    return "Share of the gain by region size. " + "; ".join(words) + "."
