"""The map of a region's parts beside the sentences that they change, as data for the browser to link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from skillviz.analysis.part_marks import PartMarks, most_marked
from skillviz.core import formats
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED
from skillviz.plots.cells import AGAINST, FOR, blended, ink_on, shades
from skillviz.plots.figure import ordered
from skillviz.plots.region import LAYER, SHORT, layer_name, layer_names
from skillviz.plots.theme import MODULE_KINDS, kind_style
from skillviz.show.comparisons import counted_rows, holding
from skillviz.show.example_table import brief
from skillviz.show.part_effects import CONDITIONS, NOUNS, part_name

MOST, FEWEST, MOST_MARKS = 100, 20, 20_000
"""The listed sentences: MOST, or fewer if they times the parts are more than MOST_MARKS, but never below FEWEST."""
LETTERS = 240  # of a sentence
LEAST = (0.01, 0.05, 0.1)
"""The smallest changes of the probability of the right answer that a reader can have marked."""
HINT = (
    "Choose a part to mark the sentences that it changes, or a sentence to mark its parts. Arrow keys move on the map, "
    "Esc clears."
)
READS = (
    "Numbers on the map count the changed sentences, bold where a random part of equal size changes fewer or more. "
    "With a sentence chosen, they are the change of its right answer's probability, in points. Ochre is better, blue "
    "is worse; ◆ is another answer."
)
STATES = {"alone": "the pre-trained model", "without": "the graft"}


@dataclass(frozen=True)
class LinkedMap:
    """The finding (Markdown), how to read it, a table with one row per part, and what the browser draws, as JSON."""

    finding: str
    reads: str
    table: pd.DataFrame
    data: dict[str, Any]


def linked_map(
    marks: PartMarks,
    condition: str,
    grouping: str,
    labels: Sequence[str],
    texts: Mapping[str, str],
    theme: str,
) -> LinkedMap:
    """The parts and the examples that they change most; examples without a text in `texts` are shown by their id.

    Texts are from users' data: nothing is escaped here, and the browser must not read them as markup.
    """
    examples, noun = marks.examples, NOUNS[grouping]
    parts = marks.parts.assign(
        name=[part_name(*place) for place in marks.parts[["layer", "kind", "head"]].itertuples(index=False)],
        holds=holding(marks.parts),
    )
    most = max(FEWEST, min(MOST, MOST_MARKS // max(len(parts), 1)))
    listed = most_marked(marks, most)
    is_numbered = bool(parts["head"].notna().any())
    names = [str(int(row["head"])) if is_numbered else str(row["kind"]) for row in parts.to_dict("records")]
    columns = ordered(names, map(str, range(len(parts))) if is_numbered else MODULE_KINDS)
    rows = layer_names(parts)
    cells = []
    for number, row in enumerate(parts.to_dict("records")):
        colour = blended(shades(theme), row["changed"] / len(examples))
        cells.append({
            "at": [rows.index(layer_name(row["layer"])), columns.index(names[number])], "key": row["name"],
            "name": formats.capital(row["name"]), "count": row["changed"], "bold": bool(row["holds"]),
            "ground": colour, "ink": ink_on(colour),
            "says": _part_words(row, condition, len(examples), len(parts), int(marks.marked[number, listed].sum())),
            "marks": {
                str(place): _mark(marks, number, example, labels)
                for place, example in enumerate(listed) if marks.marked[number, example]
            },
        })  # fmt: skip
    sentences = [
        _sentence(row, texts, labels, condition, int(marks.marked[:, example].sum()), formats.counted(len(parts), noun))
        for example, row in zip(listed, examples.iloc[listed].to_dict("records"), strict=True)
    ]
    data = {
        "rows": rows, "down": LAYER, "across": "module" if not is_numbered else noun, "parts": cells,
        "columns": [SHORT.get(name, name) if not is_numbered else name for name in columns],
        "titles": [kind_style(name).title if not is_numbered else f"{noun} {name}" for name in columns],
        "sentences": sentences, "better": FOR[theme], "worse": AGAINST[theme],
        "listed": f"{len(listed)} of {formats.counted(len(examples), 'sentence')}, changed most first", "hint": HINT,
    }  # fmt: skip
    return LinkedMap(_finding(parts, condition, len(examples), noun), READS, parts, data)


def _mark(marks: PartMarks, part: int, example: int, labels: Sequence[str]) -> list[Any]:
    """`["+12.3", 1, "positive"]`: the change in points, whether it is better, and the new answer if it is another."""
    change, answer = 100 * float(marks.changes[part, example]), int(marks.answers[part, example])
    turned = answer != marks.examples["answer"].iloc[example]
    return [formats.signed(change, 1), 1 if change > 0 else -1, labels[answer] if turned else ""]


def _sentence(
    row: dict, texts: Mapping[str, str], labels: Sequence[str], condition: str, parts: int, of: str
) -> dict[str, Any]:
    words = formats.one_line(texts.get(row["example_id"], "")).strip()
    right, answer = labels[row["label"]], labels[row["answer"]]
    return {
        "key": row["example_id"],
        "text": brief(words, LETTERS) or row["example_id"],
        "facts": f"true: {right} · {STATES[condition]}: {answer} · right answer {formats.percent(row['probability'])}",
        "says": f"{row['example_id']} is changed by {parts} of {of}. This is one example: whether a "
        f"single mark is more than chance is {NOT_MEASURED}.",
    }


def _part_words(row: dict, condition: str, n: int, parts: int, listed: int) -> str:
    """What a part changes beside its controls, and how much of it is listed."""
    return (
        f"{formats.capital(row['name'])}, {CONDITIONS[condition].lower()}: changes {row['changed']} of "
        f"{formats.counted(n, 'sentence')} ({listed} listed), {row['answers']} in the answer. "
        f"A random part of equal size: {_beside(row, parts)}."
    )


def _beside(row: dict, parts: int) -> str:
    if pd.isna(row["control"]):
        return NOT_MEASURED
    more = "more" if row["value"] > 0 else "fewer"
    verdict = f"{more} than chance" if row["holds"] else f"{NO_DIFFERENCE} among {parts}"
    ends = formats.percent_interval(row["low"], row["high"])
    return f"{formats.number(row['control'], 1)} (difference {formats.points(row['value'])}, {ends}: {verdict})"


def _finding(parts: pd.DataFrame, condition: str, n: int, noun: str) -> str:
    """The part that changes most, and how many parts change more examples than their controls."""
    best = parts.sort_values("changed", ascending=False, kind="stable").iloc[0]
    more, known = int((parts["holds"] & (parts["value"] > 0)).sum()), int(parts["value"].notna().sum())
    chance = f"{more} of {formats.counted(known, noun)}" if known else NOT_MEASURED
    return (
        f"{CONDITIONS[condition]}, **{best['name']}** changes most sentences: **{best['changed']}** of {n:,}. More "
        f"than a random part of equal size: {chance}. {counted_rows(parts)}"
    ).rstrip()
