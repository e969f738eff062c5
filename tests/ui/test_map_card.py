"""Tests of the box beside the map that names other regions."""

from __future__ import annotations

from skillviz.ui.pages.region.region_page import names_beside
from tests.show.test_entries import entry


def test_runs_of_the_same_models_are_named_by_what_differs() -> None:
    this, same, other = entry(id="a"), entry(id="b", seed=1), entry(id="c", pair=("x",), task="mrpc")
    names = names_beside([this, same, other], this)
    assert names["b"].replace("\N{NO-BREAK SPACE}", " ") == "stagewise · 0.1% · seed 1"
    assert names["c"].startswith("MRPC · ")
