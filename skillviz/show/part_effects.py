"""The effect of each part of a region: its map, the strongest parts with their random controls, and the finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.core.region_parts import ALONE, CELLS, EXPERT, EXPERTS, HEADS, ROWS, WITHOUT
from skillviz.core.verdicts import NOT_MEASURED, UNDECIDED
from skillviz.plots.forest import forest
from skillviz.plots.part_effects import effect_map
from skillviz.plots.region import layer_name
from skillviz.plots.theme import kind_style
from skillviz.show.comparisons import counted_rows, holding
from skillviz.show.exhibit import PAIRED, Exhibit, drawn_once

CONDITIONS = {ALONE: "Grafted alone", WITHOUT: "Left out"}
DIFFERENCES = {ALONE: "part alone − pre-trained", WITHOUT: "region without the part − region"}
CONTROLS = {
    ALONE: "other entries of the same tensors, outside the region",
    WITHOUT: "other entries of the region, drawn anywhere in it",
}
NOUNS = {CELLS: "cell", HEADS: "head", EXPERTS: "expert", ROWS: "row"}
MAPPED = (CELLS, HEADS, EXPERTS)
"""The groupings with a map: rows of many matrices have no common columns."""
MOST_ROWS = 12


def part_name(layer: float | None, kind: str, head: float | None) -> str:
    """`layer 3, value`, `layer 3, head 5`, `layer 3, expert 5`, `layer 3, value row 5`."""
    number = layer_name(layer)
    place = "outside the blocks" if number == "none" else f"layer {number}"
    if head is None or pd.isna(head):
        return f"{place}, {kind_style(kind).title}"
    noun = {"": NOUNS[HEADS], EXPERT: EXPERT}.get(kind) or f"{kind_style(kind).title} {NOUNS[ROWS]}"
    return f"{place}, {noun} {int(head)}"


def strongest(effects: pd.DataFrame, condition: str, metric: str) -> pd.DataFrame:
    """The rows of one condition with a `name`, largest change first, and `holds` for changes that hold among them."""
    rows = effects[effects["condition"] == condition]
    rows = rows.assign(
        name=[part_name(*place) for place in zip(rows["layer"], rows["kind"], rows["head"], strict=True)],
        holds=holding(rows),
    )
    return rows.loc[rows["value"].abs().sort_values(ascending=False, kind="stable").index]


def finding(effects: pd.DataFrame, condition: str, metric: str, grouping: str) -> str:
    """The part with the largest change, the numbers of better and worse parts, and the number expected by chance."""
    rows, words = strongest(effects, condition, metric), metric_row(metric)
    best, noun = rows.iloc[0], NOUNS[grouping]
    verdicts = [words.verdict(low, high) for low, high in zip(rows["low"], rows["high"], strict=True)]
    exact = words.precise(best["low"], best["high"])
    ends = exact.ends(best["low"], best["high"])
    better, worse, unknown = (verdicts.count(verdict) for verdict in ("better", "worse", NOT_MEASURED))
    without = f"; {NOT_MEASURED}: {unknown}" if unknown else ""
    first = (
        f"Alone, **{best['name']}** changes {words.title} most"
        if condition == ALONE
        else f"Without **{best['name']}**, {words.title} changes most"
    )
    return (
        f"{first}: **{exact.change(best['value'])}** ({ends}). "
        f"Better: {better} of {formats.counted(len(rows), noun)}; worse: {worse}{without}. {counted_rows(rows)}"
    ).rstrip()


def changed(turned: pd.DataFrame, labels: Sequence[str], texts: Mapping[str, str]) -> pd.DataFrame:
    """The table of `changed_predictions` for reading; without the texts if they are not available."""
    names = dict(enumerate(labels))
    table = pd.DataFrame({
        "text": turned["example_id"].map(texts), "true": turned["label"].map(names),
        "before": turned["before"].map(names), "after": turned["after"].map(names), "example": turned["example_id"],
    })  # fmt: skip
    return table if texts else table.drop(columns="text")


def most_changed(moved: pd.DataFrame, labels: Sequence[str], texts: Mapping[str, str]) -> pd.DataFrame:
    """The table of `analysis.part_effects.most_changed` for reading; without the texts if they are not available."""
    table = pd.DataFrame({
        "text": moved["example_id"].map(texts), "true": moved["label"].map(dict(enumerate(labels))),
        "change, nats": moved["change"].map(formats.number), "example": moved["example_id"],
    })  # fmt: skip
    return table if texts else table.drop(columns="text")


def changed_words(turned: pd.DataFrame, n: int) -> str:
    """The number of predictions that a part changes, and how many of them become right or wrong."""
    mended = int((turned["after"] == turned["label"]).sum())
    spoiled = int((turned["before"] == turned["label"]).sum())
    return (
        f"It changes **{len(turned)}** of {formats.counted(n, 'prediction')}: {mended} from wrong to right, {spoiled} "
        "from right to wrong."
    )


@drawn_once
def part_map(effects: pd.DataFrame, condition: str, metric: str, grouping: str, theme: str) -> Exhibit:
    """The map of layers and modules, or heads, with each part's change of the metric."""
    rows, words = strongest(effects, condition, metric), metric_row(metric)
    noun = NOUNS[grouping]
    largest = ", ".join(
        f"{name} {words.change(value)}" for name, value in zip(rows["name"][:3], rows["value"][:3], strict=True)
    )
    return Exhibit(
        name="parts",
        title=f"What each {noun} does: {CONDITIONS[condition].lower()}",
        figure=effect_map(rows, metric, theme=theme),
        reads=f"each number is {words.difference_axis(f'{words.title} of {DIFFERENCES[condition]}')}. Ochre is better, "
        "blue is worse. Bold numbers hold at a false discovery rate of 5%. Empty squares hold no entry.",
        alt=f"Change of {words.title} by {noun}, {CONDITIONS[condition].lower()}; largest: {largest}.",
        table=rows.drop(columns="name"),
        words=("graft", "discovery"),
    )


@drawn_once
def strongest_parts(effects: pd.DataFrame, condition: str, metric: str, grouping: str, theme: str) -> Exhibit:
    """The parts with the largest changes, with intervals, each with its random control of equal size."""
    everything, words = strongest(effects, condition, metric), metric_row(metric)
    rows = everything.head(MOST_ROWS)
    beside = everything[["excess", "excess_low", "excess_high", "draws"]].set_axis(
        ["value", "low", "high", "seeds"], axis="columns"
    )
    excess = [words.verdict(*ends) for ends in zip(rows["excess_low"], rows["excess_high"], strict=True)]
    beaten, known = (sum(says not in names for says in excess) for names in (UNDECIDED, (NOT_MEASURED,)))
    beaten_words = f"{beaten} of {formats.counted(known, 'part')} with a control differ from it."
    draws = int(rows["draws"].max()) if len(rows) else 0
    return Exhibit(
        name="strongest_parts",
        title=f"The strongest {NOUNS[grouping]}s and a random control of equal size",
        figure=forest(
            rows, metric, DIFFERENCES[condition], "part", control="random control" if draws else "", theme=theme
        ),
        reads=f"the line is the 95% interval over {int(rows['n'].max())} examples, paired. The open mark is a random "
        f"control: {CONTROLS[condition]}, as many as the part has, mean of {formats.counted(draws, 'draw')}. "
        "There is none where too few entries are left to draw from.",
        intervals=PAIRED,
        alt=f"{len(rows)} parts; {beaten_words}",
        table=rows.assign(excess_holds=holding(beside).loc[rows.index]),
        words=("paired", "discovery"),
        finding=f"{beaten_words} {counted_rows(beside)}".rstrip(),
    )
