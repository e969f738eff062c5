"""Tests of the figures of examples: selectable points, confusion matrices, and token attributions on one scale."""

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from skillviz.plots.attribution import MOST_PRINTED, layer_parts, signed, token_layers, token_values
from skillviz.plots.classes import class_results, confusion_matrix
from skillviz.plots.examples import CASES, MANY, class_probabilities, confidence_scatter
from tests.core.by_hand import by_hand
from tests.plots import frames
from tests.plots.facts import Between, Holding, Of, facts, read

FEW = frames.examples(20)  # few enough for one mark each
SHOWN = FEW[FEW["shown"]]
RIGHT = SHOWN[SHOWN["case"] == "both"]
BOTH = f"both right ({len(RIGHT)})"
TEST_3 = frames.examples().set_index("example_id").loc["test-3"]
TOGETHER = pd.DataFrame(
    [
        ("a", "both", 0.9910, 0.80, True, "first"), ("b", "both", 0.9911, 0.801, True, "second"),
        ("c", "neither", 0.9910, 0.80, True, "third"), ("d", "both", 0.9910, 0.81, True, "fourth"),
    ], columns=["example_id", "case", "finetuned", "grafted", "shown", "words"],
)  # fmt: skip


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
            lambda: confidence_scatter(frames.examples(), chosen="test-3"),
            {"chosen/x": pytest.approx([100 * TEST_3["finetuned"]])},
        ),
        "an area in the figure's own units that can be drawn": (
            lambda: confidence_scatter(frames.examples(), framed=(0.5, 1.0, 0.0, 0.25), drags=True),
            {
                "layout.shapes.*.type": Holding("rect"), "layout.shapes.-1.x0": 50, "layout.shapes.-1.x1": 100,
                "layout.shapes.-1.y0": 0, "layout.shapes.-1.y1": 25, "layout.dragmode": "select",
            },
        ),
        "no ring and no area without a choice": (
            lambda: confidence_scatter(frames.examples()),
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
            lambda: confidence_scatter(frames.examples(4 * MANY)), {"data": Of(selectable, {go.Scattergl})}
        ),
        "few points as marks": (
            lambda: confidence_scatter(frames.examples()), {"data": Of(selectable, {go.Scatter})}
        ),
        "probabilities by class": (
            lambda: class_probabilities(
                pd.DataFrame({"state": ["grafted"] * 2, "class": [1, 0], "probability": [0.75, 0.25]}),
                frames.TWO, true=1,
            ),
            {
                "data.0.x": [25, 75], "data.0.customdata": list(frames.TWO),
                "layout.yaxis.ticktext": ["negative", "positive<br>true class"],
            },
        ),
    }
)  # fmt: skip


def test_a_points_customdata_is_its_example() -> None:
    found = {t.name: list(t.customdata) for t in confidence_scatter(FEW).data if t.customdata is not None}
    cases = {f"{CASES[case].title} ({len(own):,})": own["example_id"].tolist() for case, own in SHOWN.groupby("case")}
    assert (found, TEST_3["shown"]) == (cases, False)


NAN = pytest.approx(float("nan"), nan_ok=True)
# Three of four negatives are right, and one of two positives.
COUNTS = pd.DataFrame([(0, 0, 3), (0, 1, 1), (1, 0, 1), (1, 1, 1)], columns=["true", "predicted", "count"])
RECALL = frames.class_rows().query("state == 'grafted' and metric == 'recall'")

test_classes_have = facts(
    {
        "their counts and shares of the true class, the right ones framed": (
            lambda: confusion_matrix(COUNTS, frames.TWO),
            {
                "data.0.z": [[75, 25], [50, 50]], "data.1.text": ["3", "1", "1", "1"],
                "data.1.y": [0, 0, 1, 1], "data.1.x": [0, 1, 0, 1],
                "data.0.customdata.0.1": "<b>negative</b><br>1 taken for positive (25.0% of the class)",
                "layout.shapes.*.x0": [-0.5, 0.5], "layout.shapes.*.y0": [-0.5, 0.5],
                "layout.xaxis.ticktext": list(frames.TWO),
            },
        ),
        "numbers where they are many, and no shares without examples": (
            lambda: confusion_matrix(frames.confusions(14), frames.FOURTEEN),
            {
                "layout.xaxis.ticktext": [str(i) for i in range(1, 15)],
                "layout.yaxis.ticktext.1": "2 Education…", "data.0.z.13": [NAN] * 14,
                "data.1.text": Of(lambda words: max(map(float, words)) <= 100, True),
            },
        ),
        "numbers where two names are long": (
            lambda: confusion_matrix(COUNTS, ("entailment", "not_entailment")),
            {"layout.xaxis.ticktext": ["1", "2"], "layout.yaxis.ticktext.1": "2 not_entailment"},
        ),
        "marks with intervals": (
            lambda: class_results(frames.class_rows(), frames.TWO, "recall"),
            {
                "data.*.name": ["pre-trained", "grafted", "fine-tuned"],
                "grafted/x": pytest.approx((100 * RECALL["value"]).tolist()),
                "grafted/y": pytest.approx([0, 1], abs=0.4), "grafted/error_x.arrayminus": pytest.approx([5, 5]),
                "layout.yaxis.ticktext": ["negative<br>n = 10", "positive<br>n = 410"],
            },
        ),
        "no share of nothing": (
            lambda: class_results(frames.class_rows(), frames.TWO, "precision"),
            {"data.0.x": [NAN, Between(0, 100)], "data.0.hovertext.0": "negative: n/a"},
        ),
    }
)  # fmt: skip


LENGTH = len(frames.SENTENCE.split())
SMALL = pd.DataFrame(
    [
        ("grafted", 0, "<s>", True, 0.0), ("grafted", 1, "not", False, -1.5), ("grafted", 2, "bad", False, 0.25),
        ("finetuned", 0, "<s>", True, 0.0), ("finetuned", 1, "not", False, 0.5), ("finetuned", 2, "bad", False, 3.0),
    ], columns=["state", "position", "token", "special", "value"],
)  # fmt: skip
MLP = frames.parts().query("part == 'MLP out'")

test_attributions_have = facts(
    {
        "one scale for all states": (
            lambda: token_values(SMALL),
            {
                "data.0.zmin": -3.0, "data.0.zmax": 3.0, "scale/marker.cmin": -3.0, "scale/marker.cmax": 3.0,
                "scale/marker.colorscale": [list(stop) for stop in token_values(SMALL).data[0].colorscale],
                "layout.xaxis.ticktext": ["grafted", "fine-tuned"],
            },
        ),
        "every value in print with its sign, and none of a special token": (
            lambda: token_values(SMALL),
            {
                "numbers/text": ["−1.50", "+0.50", "+0.25", "+3.00"], "numbers/y": [1, 1, 2, 2],
                "numbers/x": [0, 1, 0, 1], "layout.yaxis.ticktext": ["<i>(&lt;s&gt;)</i>", "not", "bad"],
                "data.0.z": [[NAN, NAN], [-1.5, 0.5], [0.25, 3.0]],
            },
        ),
        **{
            f"22 pixels more for each of the tokens of {count} sentences": (
                lambda count=count: token_values(frames.tokens(count)),
                {"layout.height": token_values(frames.tokens()).layout.height + 22 * (count - 1) * (LENGTH - 2)},
            )
            for count in (2, 5)
        },
        "a scale of layers that can be given": (lambda: token_layers(frames.flow(), limit=9.0), {"data.0.zmax": 9.0}),
        "a panel a part, and a line a state": (
            lambda: layer_parts(frames.parts()),
            {
                "layout.yaxis.title.text": "attention output, nats", "layout.yaxis2.title.text": "MLP out, nats",
                "layout.yaxis.range": list(layer_parts(frames.parts()).layout.yaxis2.range),
                "fine-tuned/*.yaxis": ["y", "y2"],
                "fine-tuned/1.y": MLP[MLP["state"] == "finetuned"]["value"].tolist(),
                "data.*.showlegend": [True] * 3 + [False] * 3,
            },
        ),
        "no panel of a part that the model does not have": (
            lambda: layer_parts(MLP),
            {"layout.yaxis.title.text": "MLP out, nats", "layout": Holding("yaxis", but=("yaxis2",))},
        ),
    }
)  # fmt: skip


def cells(figure: go.Figure) -> np.ndarray:
    return np.asarray(figure.data[0].z, dtype=float)


def test_tokens_stand_in_reading_order_and_repeated_ones_apart() -> None:
    figure = token_values(frames.tokens().sample(frac=1, random_state=0))
    assert read(figure, "layout.yaxis.range", "layout.yaxis.ticktext") == [[LENGTH - 0.5, -0.5], Of(len, LENGTH)]
    one = frames.tokens().query("state == 'grafted' and token == 'the'").sort_values("position")
    assert cells(figure)[one["position"], 1] == pytest.approx(one["value"].to_numpy())


def test_layers_show_the_special_tokens_part_and_of_many_only_what_falls_in_print() -> None:
    few, many = (token_layers(frames.flow(n)) for n in (MOST_PRINTED, MOST_PRINTED + 1))
    assert np.isfinite(cells(few)).all()
    assert read(few, "numbers/text") == [Of(len, MOST_PRINTED * LENGTH)]
    assert read(many, "numbers/text") == [["−"] * (cells(many) < -0.1 * many.data[0].zmax).sum()]


test_signed_numbers_and_cases_that_differ_in_mark_as_well_as_colour = by_hand(
    ("marks", 4, lambda: len({style.symbol for style in CASES.values()})),
    ("colours", 4, lambda: len({style.color for style in CASES.values()})),
    *((words, words, signed, value, limit) for value, limit, words in (
        (1.234, 3, "+1.23"), (-0.004, 3, "0"), (-12.34, 20, "−12.3"), (0.0012, 0.01, "+0.0012"), (np.nan, 1, ""),
    ))
)  # fmt: skip
