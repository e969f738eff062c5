"""Tests of a marked area: it contains the points inside it, ends included, and its address restores it unchanged."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.show.example_table import CLASSES, Area, Filters, area_of_box, passing, read_area

TABLE = pd.DataFrame(
    {
        "finetuned_confidence": [0.0, 0.5, 0.5, 1.0], "grafted_confidence": [0.0, 0.2, 0.8, 1.0],
        "finetuned_margin": [-4.0, 0.1, 0.2, 5.0], "grafted_margin": [-3.0, -1.0, 1.5, 2.0],
        "true": ["a", "b", "a", "b"], "case": ["neither", "finetuned", "both", "both"],
    }
)  # fmt: skip
ends = st.floats(-9, 9).map(lambda x: float(f"{x:.4g}"))
spans = st.tuples(ends, ends).map(lambda two: (min(two), max(two)))


def test_it_holds_what_lies_inside_with_its_ends() -> None:
    assert Area("confidence", (0.5, 1.0), (0.2, 0.8)).inside(TABLE).tolist() == [False, True, True, False]
    assert Area("margin", (-4.0, 0.1), (-3.0, -1.0)).inside(TABLE).tolist() == [True, True, False, False]


def test_it_narrows_what_the_other_filters_leave() -> None:
    area = Area("confidence", (0.5, 1.0), (0.2, 1.0))
    assert passing(TABLE, Filters(area=area)).tolist() == [False, True, True, True]
    assert passing(TABLE, Filters(label="b", area=area)).tolist() == [False, True, False, True]


@given(st.builds(Area, st.sampled_from(["confidence", "margin"]), spans, spans))
def test_the_address_brings_it_back(area: Area) -> None:
    assert read_area(area.written()) == area


@pytest.mark.parametrize(
    "written", [None, "", "all", "confidence", "confidence_0_1_0", "confidence_0_1_0_x", "accuracy_0_1_0_1",
                "confidence_1_0_0_1", "confidence_0_1_0_nan", "margin_0_inf_0_1", "confidence_0_1_0_1_1"]
)  # fmt: skip
def test_what_is_no_area_is_none(written: str | None) -> None:
    assert read_area(written) is None


def test_a_box_is_in_the_units_of_its_figure_and_may_be_drawn_from_any_corner() -> None:
    box = {"x": [100.0, 40.0], "y": [12.5, 50.0]}
    assert area_of_box(box, "confidence") == Area("confidence", (0.4, 1.0), (0.125, 0.5))
    assert area_of_box(box, "margin") == Area("margin", (40.0, 100.0), (12.5, 50.0))


def test_its_words_have_the_units_of_its_measure() -> None:
    said = Area("confidence", (0.4, 1.0), (0.0, 0.5)).words(CLASSES)
    assert "confidence in the true class, fine-tuned 40.0–100.0%, grafted 0.0–50.0" in said
    assert "fine-tuned \N{MINUS SIGN}1.00 to 2.00 nats" in Area("margin", (-1, 2), (0, 1)).words(CLASSES)
