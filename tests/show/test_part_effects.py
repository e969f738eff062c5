"""Tests of the sentences on a region's parts: the strongest first, verdicts from the intervals alone."""

from __future__ import annotations

import pandas as pd

from skillviz.core.region_parts import ALONE, CELLS, HEADS, WITHOUT
from skillviz.show.part_effects import finding, part_map, part_name, strongest, strongest_parts
from tests.tables import equal, says

ROWS = [
    (0, "value", None, 5, ALONE, 0.02, 0.01, 0.03, 0.0),
    (1, "bias", None, 7, ALONE, 0.05, -0.01, 0.09, 0.01),
    (2, "key", None, 7, ALONE, -0.01, -0.02, -0.005, None),
    (0, "value", None, 5, WITHOUT, -0.08, -0.1, -0.05, -0.01),
]
EFFECTS = pd.DataFrame(
    ROWS, columns=["layer", "kind", "head", "size", "condition", "value", "low", "high", "control"]
).assign(excess=lambda f: f["value"] - f["control"].astype(float), n=200, draws=3)
EFFECTS = EFFECTS.assign(excess_low=EFFECTS["excess"] - 0.01, excess_high=EFFECTS["excess"] + 0.01).astype(
    {"layer": "Int64", "head": "Int64", "control": "float64"}
)


test_names_and_order = equal({
    "a cell": (lambda: part_name(3, "value", None), "layer 3, value"),
    "a head": (lambda: part_name(3, "", 5), "layer 3, head 5"),
    "an expert": (lambda: part_name(3, "expert", 5), "layer 3, expert 5"),
    "a row": (lambda: part_name(3, "value", 5), "layer 3, value row 5"),
    "outside": (lambda: part_name(None, "bias", None), "outside the blocks, biases"),
    "the strongest first, whichever way": (
        lambda: strongest(EFFECTS, ALONE, "accuracy")["name"].tolist(),
        ["layer 1, biases", "layer 0, value", "layer 2, key"],
    ),
    "without": (lambda: strongest(EFFECTS, WITHOUT, "accuracy")["name"].tolist(), ["layer 0, value"]),
})  # fmt: skip


def test_what_holds_is_decided_among_the_parts_of_one_condition() -> None:
    assert strongest(EFFECTS, ALONE, "nll")["holds"].tolist() == [False, True, True]
    bare = EFFECTS.iloc[[0]].assign(layer=0, low=0.0005)
    many = pd.concat([bare] + [EFFECTS.iloc[[1]]] * 9).reset_index(drop=True)
    (first,) = strongest(many, ALONE, "nll").query("kind == 'value'")["holds"]
    shown = part_map(many, ALONE, "nll", CELLS, "light")
    assert not first and not shown.table["holds"].any(), "one bare verdict among ten comparisons"
    assert [text for text in shown.figure.data[1].text if "<b>" in text] == []


test_verdicts_need_an_interval_without_zero = says({
    "grafted alone": (
        lambda: finding(EFFECTS, ALONE, "accuracy", CELLS),
        ("**layer 1, biases**", "+5.0 points", "Better: 1 of 3 cells; worse: 1."),
    ),
    "by a loss": (
        lambda: finding(EFFECTS, ALONE, "nll", CELLS),
        ("Better: 1 of 3 cells; worse: 1. Of 3 comparisons, 2 exclude zero",),
    ),
    "left out": (lambda: finding(EFFECTS, WITHOUT, "accuracy", CELLS), ("Without **layer 0, value**,",)),
    "heads": (lambda: finding(EFFECTS, WITHOUT, "accuracy", HEADS), ("of 1 head; worse:",)),
})  # fmt: skip


def test_exhibits_have_their_tables_and_words() -> None:
    shown = part_map(EFFECTS, ALONE, "accuracy", CELLS, "light")
    rival = strongest_parts(EFFECTS, ALONE, "accuracy", CELLS, "dark")
    assert len(shown.table) == 3 and "layer 1, biases +5.0 points" in shown.alt
    words = "2 of 2 parts with a control differ from it. Of 2 comparisons, 2 exclude zero;"
    assert rival.finding.startswith(words) and "3 draws" in rival.reads and rival.table["excess_holds"].sum() == 2
