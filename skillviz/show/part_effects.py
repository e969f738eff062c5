"""The effect of each part of a region: its map, the strongest parts with their random controls, and the finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.part_effects import PartMarks, most_marked
from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.core.region_parts import ALONE, CELLS, EXPERT, EXPERTS, HEADS, ROWS, WITHOUT
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED, UNDECIDED
from skillviz.plots.cells import AGAINST, FOR, blended, ink_on, shades
from skillviz.plots.figure import ordered
from skillviz.plots.forest import forest
from skillviz.plots.part_effects import effect_map
from skillviz.plots.region import LAYER, SHORT, layer_name, layer_names
from skillviz.plots.theme import MODULE_KINDS, kind_style
from skillviz.show.comparisons import counted_rows, holding
from skillviz.show.example_table import brief
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
# listed sentences: MOST, or fewer if they times the parts are more than MOST_MARKS, but never below FEWEST
MOST, FEWEST, MOST_MARKS = 100, 20, 20_000
LETTERS = 240  # of a sentence
LEAST = (0.01, 0.05, 0.1)  # the changes of the right answer's probability from which readers can have examples marked
HINT = (
    "Choose a part to mark the sentences that it changes, or a sentence to mark its parts. Arrow keys move on the map, "
    "Esc clears."
)
READS = (
    "Numbers on the map count the changed sentences, bold where a random part of equal size changes fewer or more. "
    "With a sentence chosen, they are the change of its right answer's probability, in points. Ochre is better, blue "
    "is worse; ◆ is another answer."
)
STATES = {ALONE: "the pre-trained model", WITHOUT: "the graft"}


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
    """Changed examples for reading, largest first: `moved` has example_id, label and change in nats; texts if known."""
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


def linked_map(
    marks: PartMarks,
    condition: str,
    grouping: str,
    labels: Sequence[str],
    texts: Mapping[str, str],
    theme: str,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table of parts of `part_marks` with `name` and `holds`, and as JSON what the browser draws and links.

    The finding and what the marks mean are in it too, as Markdown. Examples without a text are shown by their id. Texts
    are from users' data: nothing is escaped here, and the browser must not read them as markup.
    """
    examples, noun, is_numbered = marks.examples, NOUNS[grouping], grouping != CELLS
    parts = marks.parts.assign(
        name=[part_name(*place) for place in marks.parts[["layer", "kind", "head"]].itertuples(index=False)],
        holds=holding(marks.parts),
    )
    listed = most_marked(marks, max(FEWEST, min(MOST, MOST_MARKS // max(len(parts), 1))))
    names = parts["head" if is_numbered else "kind"].astype(str).tolist()
    if grouping == ROWS:  # rows of many matrices have no common columns
        names = (parts.groupby("layer", dropna=False).cumcount() + 1).astype(str).tolist()
    columns = sorted(set(names), key=int) if is_numbered else ordered(names, MODULE_KINDS)
    rows, cells = layer_names(parts), []
    for number, row in enumerate(parts.to_dict("records")):
        colour = blended(shades(theme), row["changed"] / len(examples))
        is_listed = marks.marked[number, listed]
        cells.append({
            "at": [rows.index(layer_name(row["layer"])), columns.index(names[number])], "key": row["name"],
            "name": formats.capital(row["name"]), "count": row["changed"], "bold": bool(row["holds"]),
            "ground": colour, "ink": ink_on(colour),
            "marks": {str(at): _mark(marks, number, listed[at], labels) for at in np.flatnonzero(is_listed)},
            "says": f"{formats.capital(row['name'])}, {CONDITIONS[condition].lower()}: changes {row['changed']} of "
            f"{formats.counted(len(examples), 'sentence')} ({is_listed.sum()} listed), {row['answers']} in the answer. "
            f"A random part of equal size: {_beside(row, len(parts))}.",
        })  # fmt: skip
    sentences = []
    for example in listed:
        key, label, answer, share = examples.iloc[example]
        count = f"{marks.marked[:, example].sum()} of {formats.counted(len(parts), noun)}"
        sentences.append({
            "key": key, "text": brief(formats.one_line(texts.get(key, "")).strip(), LETTERS) or key,
            "facts": f"true: {labels[label]} · {STATES[condition]}: {labels[answer]} · right answer "
            f"{formats.percent(share)}",
            "says": f"{key} is changed by {count}. This is one example: whether a single mark is more than chance is "
            f"{NOT_MEASURED}.",
        })  # fmt: skip
    return parts, {
        "rows": rows, "down": LAYER, "across": noun if is_numbered else "module", "parts": cells,
        "columns": [SHORT.get(name, name) for name in columns], "sentences": sentences, "hint": HINT, "reads": READS,
        "titles": [f"{noun} {name}" if is_numbered else kind_style(name).title for name in columns],
        "listed": f"{len(listed)} of {formats.counted(len(examples), 'sentence')}, changed most first",
        "finding": _most_changing(parts, condition, len(examples), noun),
        "better": FOR[theme], "worse": AGAINST[theme],
    }  # fmt: skip


def _mark(marks: PartMarks, part: int, example: int, labels: Sequence[str]) -> list[Any]:
    """`["+12.3", 1, "positive"]`: the change in points, whether it is better, and the new answer if it is another."""
    change, answer = 100 * float(marks.changes[part, example]), int(marks.answers[part, example])
    is_other = answer != marks.examples["answer"].iloc[example]
    return [formats.signed(change, 1), 1 if change > 0 else -1, labels[answer] if is_other else ""]


def _beside(row: dict, parts: int) -> str:
    """`98.3 (difference +45.3 points, 16.0–74.6: no clear difference among 48)`."""
    if pd.isna(row["control"]):
        return NOT_MEASURED
    more = "more" if row["value"] > 0 else "fewer"
    verdict = f"{more} than chance" if row["holds"] else f"{NO_DIFFERENCE} among {parts}"
    return (
        f"{formats.number(row['control'], 1)} (difference {formats.points(row['value'])}, "
        f"{formats.percent_interval(row['low'], row['high'])}: {verdict})"
    )


def _most_changing(parts: pd.DataFrame, condition: str, n: int, noun: str) -> str:
    """The part that changes most, and how many parts change more examples than their controls."""
    best = parts.sort_values("changed", ascending=False, kind="stable").iloc[0]
    more, known = int((parts["holds"] & (parts["value"] > 0)).sum()), int(parts["value"].notna().sum())
    chance = f"{more} of {formats.counted(known, noun)}" if known else NOT_MEASURED
    return (
        f"{CONDITIONS[condition]}, **{best['name']}** changes most sentences: **{best['changed']}** of {n:,}. More "
        f"than a random part of equal size: {chance}. {counted_rows(parts)}"
    ).rstrip()
