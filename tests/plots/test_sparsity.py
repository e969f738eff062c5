"""Tests of the sparsity figure: sizes are exact, and labels of level lines do not overlap."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from skillviz.analysis.size_curve import by_size
from skillviz.core.metrics import metric_row
from skillviz.plots.references import AXIS_PIXELS, LABEL_PIXELS, LEAST_PLOT, NAME_PIXELS
from skillviz.plots.sparsity import metric_by_size
from skillviz.plots.theme import LOCALIZERS, STATES
from tests.plots import frames
from tests.plots.frames import rows


def drawn(curve: pd.DataFrame, metric: str = "accuracy", **more: Any) -> go.Figure:
    """Return the figure of a curve's points."""
    return metric_by_size(by_size(curve, metric), metric, **more)


def test_one_line_a_localizer_in_its_own_style() -> None:
    study = frames.curve()
    random = study[study["localizer"] == "random"]
    others = [random.assign(localizer=name) for name in LOCALIZERS if name not in set(study["localizer"])]
    figure = drawn(pd.concat([study, *others], ignore_index=True))
    looks = [(t.name, t.line.color, t.line.dash, t.marker.symbol) for t in figure.data]
    assert looks == [(s.title, s.color, s.dash, s.symbol) for s in LOCALIZERS.values()]
    assert {t.name: t.mode for t in figure.data}["learned"] == "markers"


def test_values_are_percent_on_a_log_axis_of_percent() -> None:
    figure = drawn(rows([0.8]))
    (trace,) = figure.data
    assert list(trace.y) == [80.0] and list(trace.x) == [pytest.approx(0.1)]
    assert list(trace.error_y.array) == [pytest.approx(10)] and list(trace.error_y.arrayminus) == [pytest.approx(10)]
    assert figure.layout.xaxis.type == "log" and "0.1" in figure.layout.xaxis.ticktext
    assert figure.layout.xaxis.title.text == "region size, % of graftable parameters"


def test_a_calibration_error_stands_at_its_debiased_value_and_the_axis_says_so() -> None:
    points = by_size(frames.curve(), "accuracy").assign(debiased=0.02)
    figure = metric_by_size(points, "ece")
    assert {y for trace in figure.data for y in trace.y} == {2.0}
    assert figure.layout.yaxis.title.text == "debiased ECE, %"
    assert metric_by_size(points.assign(debiased=np.nan), "ece").layout.yaxis.title.text == "ECE, %"


@pytest.mark.parametrize("size", [1, 3, 30, 106, 199, 350, 700, 99_000])
def test_a_single_size_has_ticks_beside_it(size: int) -> None:
    axis = drawn(rows([0.8], size=size)).layout.xaxis
    low, high = (10**end for end in axis.range)
    assert len(axis.tickvals) >= 2 and all(low <= t <= high for t in axis.tickvals)
    assert len(set(axis.ticktext)) == len(axis.ticktext)


def test_the_hover_says_the_true_size_seeds_and_what_the_interval_is_over() -> None:
    figure = drawn(frames.curve())
    stagewise, movement = (
        figure.data[0].hovertext[1],
        next(t for t in figure.data if t.name == "top movement").hovertext[1],
    )
    assert "10,646 entries = 0.1%" in stagewise and "3 seeds" in stagewise and "over examples and seeds" in stagewise
    assert "1 seed" in movement and "over examples" in movement


def test_a_missing_interval_draws_none_and_says_so() -> None:
    (trace,) = drawn(rows([0.8]).assign(low=np.nan, high=np.nan)).data
    assert np.isnan(trace.error_y.array[0]) and "no interval" in trace.hovertext[0]


def test_neighbours_stay_near_their_true_size() -> None:
    for trace in drawn(frames.curve()).data:
        true = np.array(frames.SIZES if trace.name != "learned" else (2_907, 3_666, 5_241)) / frames.D * 100
        assert np.abs(np.log10(np.array(trace.x) / true)).max() < 0.07


def test_the_axis_never_passes_what_can_be() -> None:
    low, high = drawn(rows([0.95]).assign(low=0.0, high=1.0)).layout.yaxis.range
    assert low == 0 and high == 100


def label_places(figure, plot: float) -> list[float]:  # type: ignore[no-untyped-def]
    """Return the vertical center of each label, in pixels from the bottom of a plot that is `plot` pixels high."""
    bottom, top = figure.layout.yaxis.range
    return sorted(plot * (a.y - bottom) / (top - bottom) - a.ay for a in figure.layout.annotations)


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("plot", [LEAST_PLOT, 300, 900])
@pytest.mark.parametrize(
    "levels",
    [
        frames.REFERENCES,
        {"finetuned": 0.81, "pretrained": 0.81, "temperature": 0.81, "chance": 0.8, "majority": 0.802},
        {"chance": 0.5, "majority": 0.9, "finetuned": 0.9001},
    ],
)
def test_labels_of_level_lines_never_overlap(levels: dict[str, float], plot: float) -> None:
    figure = drawn(frames.curve(), references=levels)
    places = label_places(figure, plot)
    assert len(places) == len(levels) and all(b - a >= LABEL_PIXELS - 1e-6 for a, b in pairwise(places))


def test_level_lines_lie_where_they_say_in_the_states_style() -> None:
    figure = drawn(frames.curve(), references=frames.REFERENCES)
    lines = {round(s.y0, 6): (s.line.color, s.line.dash) for s in figure.layout.shapes}
    assert lines[86.4] == (STATES["finetuned"].color, STATES["finetuned"].dash)
    assert set(lines) == {86.4, 63.2}
    texts = {a.text.replace("<br>", " ") for a in figure.layout.annotations}
    assert texts == {"fine-tuned 86.4", "pre-trained 63.2", "↓ chance 50.0", "↓ majority 50.1"}


def test_a_floor_near_the_lines_is_drawn_in_a_style_of_its_own() -> None:
    near = {**frames.REFERENCES, "chance": 0.56, "majority": 0.561}
    figure = drawn(frames.curve(), references=near)
    lines = {round(s.y0, 6): (s.line.color, s.line.dash) for s in figure.layout.shapes}
    assert set(lines) == {86.4, 63.2, 56.0, 56.1} and lines[56.0] != lines[56.1]
    low, high = figure.layout.yaxis.range
    assert low < 56 and high > 86.4


def test_a_missing_level_is_left_out() -> None:
    assert not drawn(frames.curve(), references={"majority": float("nan")}).layout.annotations


def test_a_floor_far_below_does_not_flatten_the_lines() -> None:
    low, high = drawn(frames.curve(), references=frames.REFERENCES).layout.yaxis.range
    without = {name: frames.REFERENCES[name] for name in ("finetuned", "pretrained")}
    assert [low, high] == list(drawn(frames.curve(), references=without).layout.yaxis.range)
    assert 50.1 < low < 63.2 and high > 86.4


def test_only_a_floor_is_left_out_of_the_axis() -> None:
    figure = drawn(rows([0.9]), references={"pretrained": 0.3})
    assert figure.layout.yaxis.range[0] < 30 and [s.y0 for s in figure.layout.shapes] == [pytest.approx(30)]


def test_nll_keeps_its_unit() -> None:
    figure = drawn(frames.curve(), "nll", references={"finetuned": 0.47})
    assert figure.layout.yaxis.title.text == "NLL, nats" == metric_row("nll").axis
    assert figure.layout.annotations[0].text == "fine-tuned<br>0.470"


def test_each_line_is_named_once_at_its_right_end_without_a_legend() -> None:
    figure = drawn(frames.curve(), references=frames.REFERENCES, direct=True)
    names = [a for a in figure.layout.annotations if a.name == "curve"]
    assert figure.layout.showlegend is False and [a.text.replace("<br>", " ") for a in names] == [
        t.name for t in figure.data
    ]
    for name, trace in zip(names, figure.data, strict=True):
        end = int(np.argmax(trace.x))
        assert (10**name.x, name.y) == (pytest.approx(trace.x[end]), trace.y[end])
    left, right = figure.layout.xaxis.range
    assert {a.ax for a in names} == {right}  # in the margin: the lines use the whole width of the plot
    assert max(np.log10(t.x).max() for t in figure.data) > left + 0.8 * (right - left)


@pytest.mark.parametrize("height", [360, 520])
def test_names_and_levels_share_one_column(height: int) -> None:
    figure = drawn(frames.curve(), references=frames.REFERENCES, direct=True, height=height)
    plot = height - AXIS_PIXELS
    bottom, top = figure.layout.yaxis.range
    places = sorted(
        (plot * (a.y - bottom) / (top - bottom) - a.ay, NAME_PIXELS * (1 + a.text.count("<br>")))
        for a in figure.layout.annotations
    )
    assert len(places) == len(figure.data) + len(frames.REFERENCES)
    assert all(b - a >= (below + above) / 2 - 1e-6 for (a, below), (b, above) in pairwise(places))
    assert places[-1][0] + places[-1][1] / 2 <= plot + 1e-6  # no label leaves the figure at the top


@pytest.mark.parametrize(("value", "is_beside"), [(0.7, True), (0.5, True), (0.88, False)])
def test_a_single_mark_is_named_beside_it_where_there_is_room(value: float, is_beside: bool) -> None:
    """The name must not cross the line above the mark."""
    line = pd.concat([rows([0.85], size=1_000), rows([0.87], size=10_000), rows([0.89], size=100_000)])
    points = pd.concat([line, rows([value], "random", size=8_000)])
    points = points.assign(low=points["value"] - 0.001, high=points["value"] + 0.001)
    figure = drawn(points, direct=True, crossing=(0.2, "here"))
    (name,) = (a for a in figure.layout.annotations if a.name == "curve" and a.text == "random")
    assert (name.showarrow is False) == is_beside
    assert name.x == pytest.approx(np.log10(figure.data[-1].x[0])) and name.y == 100 * value
    (mark,) = (a for a in figure.layout.annotations if a.name == "crossing")
    bottom, top = figure.layout.yaxis.range
    assert not is_beside or abs(mark.y - name.y) > 0.08 * (top - bottom)


def test_of_two_marks_whose_names_would_meet_one_is_named_in_the_margin() -> None:
    line = pd.concat([rows([0.85], size=1_000), rows([0.89], size=100_000)])
    points = pd.concat([line, rows([0.6], "random", size=8_000), rows([0.601], "movement", size=8_000)])
    figure = drawn(points.assign(low=points["value"] - 0.001, high=points["value"] + 0.001), direct=True)
    names = {a.text.replace("<br>", " "): a.showarrow for a in figure.layout.annotations if a.name == "curve"}
    assert sorted(arrow is False for arrow in (names["random"], names["top movement"])) == [False, True]


@pytest.mark.parametrize("share", [0.011, 0.05, 0.3, 0.95])
def test_the_words_of_the_crossing_cover_no_line(share: float) -> None:
    points = pd.concat([rows([0.55], size=1_000), rows([0.8], size=10_000), rows([0.89], size=100_000)])
    points = points.assign(low=points["value"] - 0.01, high=points["value"] + 0.01)
    figure = drawn(points, references={"pretrained": 0.5}, direct=True, crossing=(share, "here"))
    (mark,) = (a for a in figure.layout.annotations if a.name == "crossing")
    (line,) = figure.data
    here = float(np.interp(mark.x, np.log10(line.x), line.y))
    bottom, top = figure.layout.yaxis.range
    assert min(abs(mark.y - here), mark.y - 50, top - mark.y) > 0.08 * (top - bottom)
