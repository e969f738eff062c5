"""The sparsity page's exhibit: a metric by region size."""

from __future__ import annotations

import pandas as pd

from skillviz.analysis.necessity import RECOVERED, HalfSize, half_size, restored_and_left
from skillviz.analysis.size_curve import by_size
from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.plots.sparsity import metric_by_size
from skillviz.plots.theme import localizer_style, state_style
from skillviz.runs.record import RunRecord
from skillviz.show import alt, measures, sentences
from skillviz.show.exhibit import Exhibit, drawn_once

HEIGHT = 520


@drawn_once
def sizes(curve: pd.DataFrame, record: RunRecord, split: str, metric: str, theme: str) -> Exhibit:
    """One line a localizer over all runs of a pair; `curve` as of `measures.pair_curve`."""
    levels, points = measures.levels(record, split, metric), by_size(curve, metric)
    return Exhibit(
        name="sparsity",
        title=f"{metric_row(metric).heading} by region size",
        figure=metric_by_size(points, metric, references=levels, theme=theme, height=HEIGHT),
        reads=sentences.sparsity_reads(points, metric),
        alt=alt.sparsity(points, metric),
        table=points,
        words=("seed", "chance"),
        finding=sentences.sparsity(points, metric, levels.get("finetuned")),
    )


@drawn_once
def necessity(curve: pd.DataFrame, complement: pd.DataFrame, localizer: str, theme: str) -> Exhibit:
    """The share of the gain that grafts of one localizer bring back, and that is left without their regions, by size.

    `curve` and `complement` have the columns of curve.parquet, of one localizer, data set and split.
    """
    points = restored_and_left(curve, complement)
    drawn = points.assign(localizer=points["state"], settings="")
    styles = {state: state_style(state) for state in ("grafted", "complement")}
    title = localizer_style(localizer).title
    return Exhibit(
        name="necessity",
        title=f"What the region restores, and what its removal costs ({title})",
        figure=metric_by_size(drawn, RECOVERED, references={"half of the gain": 0.5}, styles=styles, theme=theme),
        reads="the complement is the fine-tuned model with the region back at its pre-trained values. A region is "
        "sufficient where the graft is high, and necessary where the complement is low.",
        alt=_necessity_alt(points),
        table=points.drop(columns="settings", errors="ignore"),
        words=("complement", "recovered"),
        finding=necessity_finding(half_size(points, "grafted"), half_size(points, "complement")),
    )


def necessity_finding(restored: HalfSize | None, lost: HalfSize | None) -> str:
    """Half of the gain restored, half of it lost, and which of the two takes more parameters."""
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
        else:
            parts.append("No clear difference between the two sizes.")
    if lost is None:
        parts.append("Removal is stored at one size; start a run with several sizes for its curve.")
    return " ".join(parts)


def _share(half: HalfSize) -> str:
    """`**0.3%** (0.2% to 0.5%)`, or the end of the sizes that were scored."""
    smallest, largest = formats.share(half.smallest), formats.share(half.largest)
    if half.share == 0:
        return f"**at most {smallest}**"
    if not half.is_crossed:
        return f"**more than {largest}**"
    low = f"below {smallest}" if half.low == 0 else formats.share(half.low)
    high = formats.share(half.high) if half.high <= half.largest else f"above {largest}"
    return f"**{formats.share(half.share)}** ({low} to {high})"


def _necessity_alt(points: pd.DataFrame) -> str:
    words = []
    for state, rows in points.groupby("state", sort=False):
        rows = rows.sort_values("share")
        ends = [f"{formats.percent(row['value'], 0)} at {formats.share(row['share'])}" for _, row in rows.iterrows()]
        words.append(f"{state_style(str(state)).title} {' and '.join(dict.fromkeys((ends[0], ends[-1])))}")
    return "Share of the gain by region size. " + "; ".join(words) + "."
