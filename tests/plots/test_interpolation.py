"""Tests of the figure between two models: each point with its interval, and nothing that was not measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from skillviz.plots.interpolation import accuracy_by_error, along_paths, confidence_at, path_style, trade_off
from skillviz.plots.theme import STATES
from tests.plots.facts import Between, Holding, Of, facts, read
from tests.plots.wise_frames import INSIDE, OUTSIDE, bins, points

FAR = "chance 10.0%, off the scale"
MARKS = {STATES[state].title: (x, STATES[state].color) for state, x in
         (("pretrained", 63), ("finetuned", 86), ("grafted", 82))}  # fmt: skip


def traces(figure: go.Figure, name: str) -> list[Any]:
    return [trace for trace in figure.data if trace.name == name]


def drawn(**changes: Any) -> go.Figure:
    return trade_off(points(**changes), INSIDE, OUTSIDE, references={"chance": 0.5})


def along(**changes: Any) -> go.Figure:
    return along_paths(points(), (INSIDE, OUTSIDE), **changes)


WITH_A_GAP = points()[lambda rows: (rows["dataset"] != OUTSIDE) | ~np.isclose(rows["alpha"], 0.5) | rows["current"]]
NEAR_CHANCE = points().assign(
    **{name: lambda rows, name=name, value=value: rows[name].mask(rows["current"], value)
       for name, value in {"value": 0.1, "low": 0.09, "high": 0.11}.items()}
)  # fmt: skip
# The ECE of every point: the debiased value is 1.5 points below the plug-in, and centers its interval.
DEBIASED = points().assign(
    debiased=lambda rows: (rows["value"] - 0.015).where(rows["metric"] == "ece"),
    low=lambda rows: (rows["debiased"] - 0.01).fillna(rows["low"]),
    high=lambda rows: (rows["debiased"] + 0.02).fillna(rows["high"]),
)


def ece(path: str, dataset: str, current: bool) -> np.ndarray:
    """Return the debiased ECE of points of a path, in percent."""
    shown = DEBIASED.query("metric == 'ece' and path == @path and dataset == @dataset and current == @current")
    return 100 * shown.sort_values("alpha")["debiased"].to_numpy(float)


DRAWN = np.concatenate([ece(path, INSIDE, False) for path in ("wise-ft", "wise-graft")])

test_between_two_models_there_is = facts(
    {
        "a mark at each alpha, in percent of both data sets": (
            drawn,
            {
                "WiSE-Graft/mode": "lines+markers",
                "WiSE-Graft/x.0": pytest.approx(63), "WiSE-Graft/x.10": pytest.approx(82),
                "WiSE-Graft/y.0": pytest.approx(61), "WiSE-Graft/y.10": pytest.approx(76),
                "WiSE-Graft/x.-1": pytest.approx(82),
                "layout.xaxis.title.text": f"accuracy on {INSIDE}, %",
                "layout.yaxis.title.text": f"accuracy on {OUTSIDE}, %",
            },
        ),
        "a ring with both intervals at the chosen point": (
            lambda: drawn(chosen=0.35),
            {
                "WiSE-FT, chosen point/x": pytest.approx([63 + 23 * 0.35 + 12 * 0.35 * 0.65]),
                "WiSE-FT, chosen point/marker.symbol": "circle-open",
                "WiSE-FT, chosen point/error_x.array.0": pytest.approx(2),
                "WiSE-FT, chosen point/error_y.arrayminus.0": pytest.approx(2),
            },
        ),
        "no chosen point on the line": (
            lambda: drawn(chosen=0.35),
            {"WiSE-FT/x": Of(lambda x: np.isclose(x, 63 + 23 * 0.35 + 12 * 0.35 * 0.65).tolist(), [False] * 11)},
        ),
        "no point that one data set lacks": (
            lambda: trade_off(WITH_A_GAP, INSIDE, OUTSIDE), {"WiSE-FT/x": Of(len, 10)}
        ),
        "an axis with chance near the points": (
            drawn, {"layout.xaxis.range.0": Between(40, 50), "layout.xaxis.range.1": Between(88, 92)}
        ),
        "an axis that chance far off does not stretch": (
            lambda: trade_off(points(), INSIDE, OUTSIDE, references={"chance": 0.1}),
            {
                "layout.xaxis.range.0": Between(55, 61),
                "layout.xaxis.range.1": pytest.approx(drawn().layout.xaxis.range[1], abs=1),
            },
        ),
        "a band of the interval, and the chosen alpha upright": (
            lambda: along(references={"chance": 0.5}),
            {
                "WiSE-FT: interval/0.y": Of(max, pytest.approx(88, abs=0.5)),
                "layout.shapes": Of(lambda shapes: {s.x0 for s in shapes if s.x0 == s.x1}, {35}),
            },
        ),
        "room for the debiased values": (
            lambda: along_paths(
                DEBIASED, (INSIDE,), "ece", room=DEBIASED.assign(low=np.nan, high=np.nan)
            ),
            {
                "layout.yaxis.range.0": Between(-np.inf, DRAWN.min()),
                "layout.yaxis.range.1": Between(DRAWN.max(), DRAWN.max() + 1.5 + 0.06 * np.ptp(DRAWN)),
            },
        ),
        "each end as the model that it is": (
            drawn,
            {f"{name}/x.0": pytest.approx(x) for name, (x, _) in MARKS.items()}
            | {f"{name}/marker.color": color for name, (_, color) in MARKS.items()}
            | {f"{name}/error_x.array.0": pytest.approx(2) for name in MARKS},
        ),
        "no line of two ends that nobody measured": (lambda: drawn(points=2), {"WiSE-FT/mode": "markers"}),
        "no band of two ends that nobody measured": (
            lambda: along_paths(points(points=2), (INSIDE,)),
            {"WiSE-FT/*.mode": ["markers"], "WiSE-FT: interval/*.x": []},
        ),
        "chance on both axes, named once": (
            drawn,
            {"layout.shapes.*.x0": [50, 0], "layout.shapes.*.x1": [50, 1], "layout.shapes.*.y0": [0, 50],
             "layout.shapes.*.y1": [1, 50], "chance 50.0%/*.name": ["chance 50.0%"]},
        ),
        "the name of a level far off, and no line": (
            lambda: trade_off(points(), INSIDE, OUTSIDE, references={"chance": 0.1}),
            {"layout.shapes": [], f"{FAR}/mode": "markers", f"{FAR}/marker.symbol": Holding("triangle")},
        ),
        "the name of a level far off along the way, and no line": (
            lambda: along(references={"chance": 0.1}),
            {"layout.shapes.*.x0": [35, 35], f"{FAR}/mode": "markers", f"{FAR}/marker.symbol": Holding("triangle")},
        ),
        "a level far off the lines if the chosen point is there": (
            lambda: along_paths(NEAR_CHANCE, (INSIDE, OUTSIDE), references={"chance": 0.1}),
            {"data.*.name": Holding("chance 10.0%")},
        ),
        "nothing of a data set that was not scored": (lambda: trade_off(points(), INSIDE, "elsewhere"), {"data": []}),
        "along the way a panel a data set, with bands and the chosen alpha": (
            lambda: along(references={"chance": 0.5}),
            {
                "layout.yaxis.title.text": f"accuracy on<br>{INSIDE}, %",
                "layout.yaxis2.title.text": f"accuracy on<br>{OUTSIDE}, %",
                "layout": Holding("yaxis2", but=("yaxis3",)),
                "WiSE-FT/*.yaxis": ["y", "y2"], "WiSE-FT/0.x.0": 0, "WiSE-FT/0.x.1": 10,
                "WiSE-Graft, chosen point/*.x": [[35], [35]],
            },
        ),
        "no panel of a data set without a histogram": (
            lambda: confidence_at(bins(), (INSIDE, "elsewhere")), {"layout": Holding("yaxis", but=("yaxis2",))}
        ),
        "accuracy against the debiased error, with a few labeled alphas": (
            lambda: accuracy_by_error(DEBIASED, INSIDE),
            {
                "WiSE-FT/x": pytest.approx(ece("wise-ft", INSIDE, False)),
                "layout.xaxis.title.text": Holding("debiased ECE, % (lower"),
                "layout.annotations.1.text": "α 50%", "layout.annotations.4.text": "α 50%",
                "layout.annotations.1.font.color": STATES["finetuned"].color,
                "layout.annotations.4.font.color": STATES["grafted"].color,
            },
        ),
    }
)  # fmt: skip


def test_a_paths_colour_is_that_of_the_model_it_ends_at() -> None:
    colors = {name: path_style(name).color for name in ("wise-ft", "wise-graft")}
    assert colors == {"wise-ft": STATES["finetuned"].color, "wise-graft": STATES["grafted"].color}
    assert path_style("another").title == "another"


def test_a_calibration_error_in_and_out_of_distribution_is_debiased_with_the_plug_in_one_in_the_hover() -> None:
    figure = trade_off(DEBIASED, INSIDE, OUTSIDE, "ece")
    assert read(figure, "layout.xaxis.title.text", "layout.yaxis.title.text") == [
        f"debiased ECE on {INSIDE}, %", f"debiased ECE on {OUTSIDE}, %",
    ]  # fmt: skip
    for name, current in (("WiSE-FT", False), ("WiSE-FT, chosen point", True)):
        wanted = [ece("wise-ft", dataset, current) for dataset in (INSIDE, OUTSIDE)]
        said = [part for of, dataset in zip(wanted, (INSIDE, OUTSIDE), strict=True)
                for part in (f"{of[0]:.1f}% ECE on {dataset}<br>95%: ", f"; plug-in {of[0] + 1.5:.1f}%")]  # fmt: skip
        assert read(figure, *(f"{name}/{end}" for end in ("x", "y", "hovertext.0"))) == [
            pytest.approx(wanted[0]), pytest.approx(wanted[1]), Holding(*said),
        ]  # fmt: skip
    ends = [f"WiSE-FT, chosen point/error_{axis}.{end}.0" for axis in "xy" for end in ("array", "arrayminus")]
    assert read(figure, *ends) == pytest.approx([2, 1, 2, 1])


@pytest.mark.parametrize(("number", "dataset"), [(0, INSIDE), (1, OUTSIDE)])
def test_a_calibration_error_along_the_way_is_debiased_with_its_band_about_it(number: int, dataset: str) -> None:
    figure, on = along_paths(DEBIASED, (INSIDE, OUTSIDE), "ece"), ece("wise-graft", dataset, False)
    paths = {
        f"WiSE-Graft/{number}.y": pytest.approx(on),
        f"WiSE-Graft: interval/{number}.y": pytest.approx([*(on + 2), *(on - 1)[::-1]]),
        f"WiSE-Graft/{number}.hovertext.0": Holding(f"; plug-in {on[0] + 1.5:.1f}%<br>alpha 0.00"),
        f"WiSE-Graft, chosen point/{number}.y": pytest.approx(ece("wise-graft", dataset, True)),
        f"WiSE-Graft, chosen point/{number}.error_y.array.0": pytest.approx(2),
        f"WiSE-Graft, chosen point/{number}.error_y.arrayminus.0": pytest.approx(1),
        f"layout.yaxis{number + 1 if number else ''}.title.text": f"debiased ECE on<br>{dataset}, %",
    }
    assert dict(zip(paths, read(figure, *paths), strict=True)) == paths


def test_a_metric_without_a_debiased_value_is_drawn_as_it_is() -> None:
    for draw in (lambda frame: trade_off(frame, INSIDE, OUTSIDE), lambda frame: along_paths(frame, (INSIDE, OUTSIDE))):
        plain, beside = draw(points()), draw(DEBIASED)
        assert plain == beside and "plug-in" not in str(plain)


def test_the_histogram_tells_the_wrong_ones_from_all() -> None:
    figure = confidence_at(bins(), (INSIDE, OUTSIDE))
    outline, wrong = (traces(figure, name)[0] for name in ("WiSE-Graft", "WiSE-Graft: wrong"))
    own = bins().query("path == 'wise-graft' and dataset == @INSIDE")
    top, total = own.iloc[-1], own["count"].sum()
    missed = int(top["count"] - top["correct"])
    assert (max(outline.y), wrong.y[-2]) == pytest.approx((100 * own["count"].max() / total, 100 * missed / total))
    assert (np.sort(wrong.y) <= np.sort(outline.y)[-len(wrong.y) :]).all()
    assert f"{missed} of them wrong" in outline.hovertext[-2]
    assert sorted(trace.showlegend for trace in traces(figure, "WiSE-FT")) == [False, True]
