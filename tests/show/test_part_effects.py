"""Tests of the sentences on a region's parts: the strongest first, verdicts from the intervals alone."""

from __future__ import annotations

import pandas as pd

from skillviz.core.region_parts import ALONE, CELLS, HEADS, WITHOUT
from skillviz.show.part_effects import finding, part_map, part_name, strongest, strongest_parts


def effects() -> pd.DataFrame:
    rows = [
        (0, "value", None, 5, ALONE, 0.02, 0.01, 0.03, 0.0),
        (1, "bias", None, 7, ALONE, 0.05, -0.01, 0.09, 0.01),
        (2, "key", None, 7, ALONE, -0.01, -0.02, -0.005, None),
        (0, "value", None, 5, WITHOUT, -0.08, -0.1, -0.05, -0.01),
    ]
    frame = pd.DataFrame(
        rows, columns=["layer", "kind", "head", "size", "condition", "value", "low", "high", "control"]
    )
    frame["excess"] = frame["value"] - frame["control"].astype(float)
    frame = frame.assign(n=200, excess_low=frame["excess"] - 0.01, excess_high=frame["excess"] + 0.01, draws=3)
    return frame.astype({"layer": "Int64", "head": "Int64", "control": "float64"})


def test_names_of_parts() -> None:
    assert part_name(3, "value", None) == "layer 3, value"
    assert part_name(3, "", 5) == "layer 3, head 5" and part_name(3, "expert", 5) == "layer 3, expert 5"
    assert part_name(3, "value", 5) == "layer 3, value row 5"
    assert part_name(None, "bias", None) == "outside the blocks, biases"


def test_the_strongest_stands_first_whichever_way() -> None:
    names = strongest(effects(), ALONE, "accuracy")["name"].tolist()
    assert names == ["layer 1, biases", "layer 0, value", "layer 2, key"]
    assert strongest(effects(), WITHOUT, "accuracy")["name"].tolist() == ["layer 0, value"]


def test_what_holds_is_decided_among_the_parts_of_one_condition() -> None:
    assert strongest(effects(), ALONE, "nll")["holds"].tolist() == [False, True, True]
    many = pd.concat([effects().iloc[[0]].assign(layer=n, low=0.0005) for n in range(1)] + [effects().iloc[[1]]] * 9)
    many = many.reset_index(drop=True)
    (first,) = strongest(many, ALONE, "nll").query("kind == 'value'")["holds"]
    assert not first, "one bare verdict among ten comparisons"
    shown = part_map(many, ALONE, "nll", CELLS, "light")
    assert not shown.table["holds"].any() and not any("<b>" in text for text in shown.figure.data[1].text)


def test_verdicts_need_an_interval_without_zero() -> None:
    said = finding(effects(), ALONE, "accuracy", CELLS)
    assert "**layer 1, biases**" in said and "+5.0 points" in said
    assert "Better: 1 of 3 cells; worse: 1." in said
    assert "Better: 1 of 3 cells; worse: 1. Of 3 comparisons, 2 exclude zero" in finding(effects(), ALONE, "nll", CELLS)
    assert "Without **layer 0, value**," in finding(effects(), WITHOUT, "accuracy", CELLS)
    assert "of 1 head; worse:" in finding(effects(), WITHOUT, "accuracy", HEADS)


def test_exhibits_have_their_tables_and_words() -> None:
    table = effects()
    shown = part_map(table, ALONE, "accuracy", CELLS, "light")
    assert len(shown.table) == 3 and "layer 1, biases +5.0 points" in shown.alt
    rival = strongest_parts(table, ALONE, "accuracy", CELLS, "dark")
    assert rival.finding.startswith("2 of 2 parts with a control differ from it. Of 2 comparisons, 2 exclude zero;")
    assert "3 draws" in rival.reads
    assert rival.table["excess_holds"].tolist() == [True, False, False] or rival.table["excess_holds"].sum() == 2
