"""Tests of the figures between two models and of other tasks: each point with its interval, and nothing more."""

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from skillviz.plots.interpolation import accuracy_by_error, along_paths, confidence_at, path_style, trade_off
from skillviz.plots.theme import STATES
from skillviz.plots.transfer import graft_minus_finetuned, zero_shot
from tests.plots.facts import Between, Holding, Of, facts, read
from tests.plots.wise_frames import INSIDE, OUTSIDE, bins, differences, points, tasks

FAR = "chance 10.0%, off the scale"
MARKS = {STATES[state].title: (x, STATES[state].color) for state, x in
         (("pretrained", 63), ("finetuned", 86), ("grafted", 82))}  # fmt: skip


def drawn(**changes: Any) -> go.Figure:
    return trade_off(points(**changes), INSIDE, OUTSIDE, references={"chance": 0.5})


def along(**changes: Any) -> go.Figure:
    return along_paths(points(), (INSIDE, OUTSIDE), **changes)


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
            lambda: trade_off(
                points().query("dataset != @OUTSIDE or current or not 0.49 < alpha < 0.51"), INSIDE, OUTSIDE
            ),
            {"WiSE-FT/x": Of(len, 10)},
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
        "the debiased error in and out of distribution, with the plug-in one in the hover": (
            lambda: trade_off(DEBIASED, INSIDE, OUTSIDE, "ece"),
            {
                f"WiSE-FT, chosen point/error_{axis}.{end}.0": pytest.approx(size)
                for axis in "xy" for end, size in (("array", 2), ("arrayminus", 1))
            } | {
                path: wanted
                for axis, dataset in (("x", INSIDE), ("y", OUTSIDE))
                for path, wanted in (
                    (f"layout.{axis}axis.title.text", f"debiased ECE on {dataset}, %"),
                    (f"WiSE-FT/{axis}", pytest.approx(ece("wise-ft", dataset, False))),
                    (f"WiSE-FT, chosen point/{axis}", pytest.approx(ece("wise-ft", dataset, True))),
                )
            } | {
                f"{name}/hovertext.0": Holding(*(
                    part for dataset in (INSIDE, OUTSIDE) for of in ece("wise-ft", dataset, current)[:1]
                    for part in (f"{of:.1f}% ECE on {dataset}<br>95%: ", f"; plug-in {of + 1.5:.1f}%")
                ))
                for name, current in (("WiSE-FT", False), ("WiSE-FT, chosen point", True))
            },
        ),
        **{
            f"the debiased error along the way on {dataset}, with its band about it": (
                lambda: along_paths(DEBIASED, (INSIDE, OUTSIDE), "ece"),
                {
                    f"WiSE-Graft/{number}.y": pytest.approx(on),
                    f"WiSE-Graft: interval/{number}.y": pytest.approx([*(on + 2), *(on - 1)[::-1]]),
                    f"WiSE-Graft/{number}.hovertext.0": Holding(f"; plug-in {on[0] + 1.5:.1f}%<br>alpha 0.00"),
                    f"WiSE-Graft, chosen point/{number}.y": pytest.approx(ece("wise-graft", dataset, True)),
                    f"WiSE-Graft, chosen point/{number}.error_y.array.0": pytest.approx(2),
                    f"WiSE-Graft, chosen point/{number}.error_y.arrayminus.0": pytest.approx(1),
                    f"layout.yaxis{number + 1 if number else ''}.title.text": f"debiased ECE on<br>{dataset}, %",
                },
            )
            for number, dataset in enumerate((INSIDE, OUTSIDE)) for on in [ece("wise-graft", dataset, False)]
        },
    }
)  # fmt: skip


def test_a_paths_colour_is_that_of_the_model_it_ends_at() -> None:
    ft, graft, another = map(path_style, ("wise-ft", "wise-graft", "another"))
    assert (ft.color, graft.color, another.title) == (STATES["finetuned"].color, STATES["grafted"].color, "another")


def test_a_metric_without_a_debiased_value_is_drawn_as_it_is() -> None:
    for draw in (lambda frame: trade_off(frame, INSIDE, OUTSIDE), lambda frame: along_paths(frame, (INSIDE, OUTSIDE))):
        plain, beside = draw(points()), draw(DEBIASED)
        assert plain == beside and "plug-in" not in str(plain)


def test_the_histogram_tells_the_wrong_ones_from_all() -> None:
    outline, wrong, hover, shown = read(
        confidence_at(bins(), (INSIDE, OUTSIDE)),
        "WiSE-Graft/0.y", "WiSE-Graft: wrong/0.y", "WiSE-Graft/0.hovertext.-2", "WiSE-FT/*.showlegend",
    )  # fmt: skip
    own = bins().query("path == 'wise-graft' and dataset == @INSIDE")
    total, missed = own["count"].sum(), own["count"].iloc[-1] - own["correct"].iloc[-1]
    assert (max(outline), wrong[-2]) == pytest.approx((100 * own["count"].max() / total, 100 * missed / total))
    assert (np.sort(wrong) <= np.sort(outline)[-len(wrong) :]).all()
    assert f"{missed} of them wrong" in hover and sorted(shown) == [False, True]


NAMES = ("task-0", "task-1", "task-2")
NEAR = {"chance": {"task-0": 0.5}, "majority": {"task-0": 0.505}}
FAR_LEVEL = {"chance": dict.fromkeys(NAMES, 0.01)}
ENDS = ["value", "low", "high"]
HEIGHTS = {"pre-trained": 0.255, "grafted": 0.085, "fine-tuned": -0.085, "temperature-scaled": -0.255}
DOTS = "graft − fine-tuned, paired"


def levels(of: list[Any]) -> list[str]:
    return [note.text for note in of if note.name == "level"]


def moved(shift: float) -> pd.DataFrame:
    return differences().assign(**{end: differences()[end] + shift for end in ENDS})


test_each_task_has = facts(
    {
        "its place from the top, and its values with intervals": (
            lambda: zero_shot(tasks(), NAMES),
            {
                "layout.yaxis.ticktext": list(NAMES), "layout.yaxis.tickvals": [0, -1, -2],
                "grafted/x": pytest.approx(100 * tasks().query("state == 'grafted'")["value"].to_numpy()),
                "grafted/error_x.array.1": pytest.approx(3),
            },
        ),
        "states that do not cover one another": (
            lambda: zero_shot(tasks(), NAMES),
            {f"{name}/y.0": pytest.approx(height) for name, height in HEIGHTS.items()},
        ),
        **{
            f"the line of no difference within the axis of differences moved by {shift}": (
                lambda shift=shift: graft_minus_finetuned(moved(shift), NAMES),
                {
                    "layout.xaxis.range.0": Between(-np.inf, min(0, 100 * np.nanmin(moved(shift)[ENDS]))),
                    "layout.xaxis.range.1": Between(max(0, 100 * np.nanmax(moved(shift)[ENDS])), np.inf),
                },
            )
            for shift in (-0.2, 0.0, 0.2)
        },
        "numbers of differences that the line at zero does not cross": (
            lambda: graft_minus_finetuned(differences(), NAMES),
            {
                "layout.annotations": Of(
                    lambda of: [(note.text, bool(note.bgcolor)) for note in of if note.name == "difference"][:2],
                    [("\N{MINUS SIGN}3.0", True), ("+1.0 (\N{MINUS SIGN}1.0 to 3.5)", True)],
                )
            },
        ),
        "one label of two levels so near": (
            lambda: zero_shot(tasks(), NAMES, references=NEAR),
            {"layout.annotations": Of(levels, ["chance 50.0, majority 50.5"])},
        ),
        "the name of a level far below at the left end": (
            lambda: zero_shot(tasks(), NAMES, references=FAR_LEVEL),
            {
                "layout.annotations": Of(levels, ["← chance 1.0"]),
                "layout.annotations.-1.x": zero_shot(tasks(), NAMES).layout.xaxis.range[0],
            },
        ),
        "its levels in its band": (
            lambda: zero_shot(
                tasks(), NAMES, references={"chance": {"task-0": 0.5, "task-2": 0.25, "task-9": 0.1}}
            ),
            {
                "chance/x": [50, 50, None, 25, 25, None], "chance/y.3": pytest.approx(-2.42),
                "chance/y.4": pytest.approx(-1.58),
            },
        ),
        "no row if it was not asked for": (
            lambda: zero_shot(tasks(), ("task-2", "task-7")),
            {"layout.yaxis.ticktext": ["task-2"], "grafted/x": [Between(0, 100)]},
        ),
        "its difference with sign, unit and interval": (
            lambda: graft_minus_finetuned(differences(), NAMES),
            {
                f"{DOTS}/x": pytest.approx([-3, 1, 5]), f"{DOTS}/hovertext.0": Holding("no interval"),
                f"{DOTS}/hovertext.1": Holding("+1.0 points", "−1.0 to 3.5"), "layout.shapes.*.x0": Holding(0),
                "layout.xaxis.title.text": "accuracy: graft − fine-tuned, points",
            },
        ),
        "a difference of losses in nats": (
            lambda: graft_minus_finetuned(differences().assign(metric="nll"), NAMES, "nll"),
            {"layout.xaxis.title.text": Holding(", nats"), f"{DOTS}/x.2": pytest.approx(0.05)},
        ),
        "an axis of one point about zero if nothing differs": (
            lambda: graft_minus_finetuned(differences().assign(value=0.0, low=0.0, high=0.0)),
            {"layout.xaxis.range": [-1, 1]},
        ),
        "its long name broken": (
            lambda: zero_shot(tasks(1).assign(dataset="restaurant-reviews")),
            {"layout.yaxis.ticktext": ["restaurant-<br>reviews"]},
        ),
        "no level far below, and the axis that it has without one": (
            lambda: zero_shot(tasks(), NAMES, references=FAR_LEVEL),
            {"chance/*.x": [], "layout.xaxis.range": list(zero_shot(tasks(), NAMES).layout.xaxis.range)},
        ),
    }
)  # fmt: skip


@pytest.mark.slow
def test_fourteen_tasks_are_taller_than_one() -> None:
    assert zero_shot(tasks(14)).layout.height > 1000 > 400 > zero_shot(tasks(1)).layout.height >= 150


def test_every_mark_has_its_value_within_the_axis_and_its_name_in_the_legend() -> None:
    figure = zero_shot(tasks(), NAMES, references=NEAR)
    marks = [trace for trace in figure.data if trace.mode == "markers"]
    assert {trace.name for trace in figure.data if trace.showlegend} == {trace.name for trace in marks}
    labels = {note.x: note.text for note in figure.layout.annotations if note.name == "dot"}
    value, half, (low, high) = read(figure, "grafted/x.0", "grafted/error_x.array.0", "layout.xaxis.range")
    assert (len(labels), labels[value + half]) == (sum(len(trace.x) for trace in marks), f"{value:.1f}")
    assert low < min(labels) and high - max(labels) > 0.1 * (high - low)
