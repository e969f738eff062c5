"""Tests of the scatter: points can be selected by id, and each case has its own color and mark."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from skillviz.plots.examples import CASES, MANY, class_probabilities, confidence_scatter
from tests.plots import example_frames as single
from tests.plots.facts import Holding, Of, facts

FEW = single.examples(20)  # few enough for one mark each
SHOWN = FEW[FEW["shown"]]
RIGHT = SHOWN[SHOWN["case"] == "both"]
BOTH = f"both right ({len(RIGHT)})"
TEST_3 = single.examples().set_index("example_id").loc["test-3"]
TOGETHER = pd.DataFrame(
    [
        ("a", "both", 0.9910, 0.80, True, "first"), ("b", "both", 0.9911, 0.801, True, "second"),
        ("c", "neither", 0.9910, 0.80, True, "third"), ("d", "both", 0.9910, 0.81, True, "fourth"),
    ], columns=["example_id", "case", "finetuned", "grafted", "shown", "words"],
)  # fmt: skip
PROBABILITIES = pd.DataFrame({"state": ["grafted"] * 2, "class": [1, 0], "probability": [0.75, 0.25]})


def selectable(traces: list[Any]) -> set[type]:
    return {type(trace) for trace in traces if trace.customdata is not None}


test_the_scatter_shows = facts(
    {
        "values in percent, and what is filtered out as context that cannot be clicked": (
            lambda: confidence_scatter(FEW),
            {
                f"{BOTH}/x": pytest.approx((100 * RIGHT["finetuned"]).tolist(), abs=0.0005),
                "filtered out/hoverinfo": "skip", "filtered out/customdata": None,
                "filtered out/x": pytest.approx((100 * FEW[~FEW["shown"]]["finetuned"]).tolist(), abs=0.0005),
            },
        ),
        "margins in nats": (
            lambda: confidence_scatter(FEW, "margin", "margin, nats"),
            {f"{BOTH}/y": pytest.approx(RIGHT["grafted"].tolist(), abs=0.0005)},
        ),
        "a ring about the chosen example, even if it is filtered out": (
            lambda: confidence_scatter(single.examples(), chosen="test-3"),
            {"chosen/x": pytest.approx([100 * TEST_3["finetuned"]])},
        ),
        "an area in the figure's own units that can be drawn": (
            lambda: confidence_scatter(single.examples(), framed=(0.5, 1.0, 0.0, 0.25), drags=True),
            {
                "layout.shapes.*.type": Holding("rect"), "layout.shapes.-1.x0": 50, "layout.shapes.-1.x1": 100,
                "layout.shapes.-1.y0": 0, "layout.shapes.-1.y1": 25, "layout.dragmode": "select",
            },
        ),
        "no ring and no area without a choice": (
            lambda: confidence_scatter(single.examples()),
            {"layout.shapes": [], "layout.dragmode": None, "chosen/*.x": []},
        ),
        "one mark of a case at one place, which says so": (
            lambda: confidence_scatter(TOGETHER),
            {
                "both right (3)/customdata": ["a", "d"], "both wrong (1)/hovertext": ["third"],
                "both right (3)/hovertext": ["first<br>and 1 more here", "fourth"],
            },
        ),
        "one mark of equal margins": (
            lambda: confidence_scatter(
                FEW.assign(finetuned=1.5, grafted=1.5, case="both", shown=True), "margin", "margin, nats"
            ),
            {"both right (20)/x": [1.5]},
        ),
        "many points as one picture": (
            lambda: confidence_scatter(single.examples(4 * MANY)), {"data": Of(selectable, {go.Scattergl})}
        ),
        "few points as marks": (
            lambda: confidence_scatter(single.examples()), {"data": Of(selectable, {go.Scatter})}
        ),
        "probabilities by class": (
            lambda: class_probabilities(PROBABILITIES, single.TWO, true=1),
            {
                "data.0.x": [25, 75], "data.0.customdata": list(single.TWO),
                "layout.yaxis.ticktext": ["negative", "positive<br>true class"],
            },
        ),
    }
)  # fmt: skip


def test_a_points_customdata_is_its_example() -> None:
    found = {t.name: list(t.customdata) for t in confidence_scatter(FEW).data if t.customdata is not None}
    wanted = {f"{CASES[case].title} ({len(own):,})": own["example_id"].tolist() for case, own in SHOWN.groupby("case")}
    assert found == wanted and not TEST_3["shown"]


def test_cases_differ_in_mark_as_well_as_colour() -> None:
    assert len({style.symbol for style in CASES.values()}) == len({style.color for style in CASES.values()}) == 4
