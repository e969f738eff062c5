"""Tests of a panel per model: bars show shares with the wrong part; accuracy with its interval, gap, count and ECE."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skillviz.core import formats
from skillviz.core.calibration import reliability
from skillviz.core.metrics import ece
from skillviz.plots.calibration import confidence_histogram, reliability_diagram, scope_histogram
from skillviz.plots.theme import STATES
from tests.plots import frames
from tests.plots.every_figure import draw


def test_both_kinds_are_drawn_as_shares_of_their_kind() -> None:
    figure = scope_histogram(frames.scopes(), {"grafted": "AUROC 84.0%"})
    assert len(figure.data) == 6 and "AUROC 84.0%" in str(figure.layout.annotations)
    for bar in figure.data:
        assert float(np.sum(bar.y)) == pytest.approx(100)
        assert bool(bar.marker.pattern.shape) is ("out of scope" in bar.name)


def two_bins() -> pd.DataFrame:
    """Return two filled bins by hand (30 with confidence 60%, 40% right; 10 with 90%, all right) and an empty one."""
    nan = float("nan")
    table = pd.DataFrame({"bin": [0, 1, 2], "lower": [0.0, 0.5, 0.75], "upper": [0.5, 0.75, 1.0], "count": [0, 30, 10]})
    table = table.assign(
        confidence=[nan, 0.6, 0.9], accuracy=[nan, 0.4, 1.0], low=[nan, 0.25, 0.72], high=[nan, 0.58, 1.0]
    )
    return table.assign(state="grafted")


def drawn(figure: go.Figure, name: str) -> go.Bar:
    """Return the only trace with this name."""
    (trace,) = [t for t in figure.data if t.name == name]
    return trace


def titles(figure: go.Figure) -> list[str]:
    return [note.text.replace("\N{NO-BREAK SPACE}", " ") for note in figure.layout.annotations]


def test_bars_are_shares_of_the_examples_and_the_hatched_part_is_wrong() -> None:
    figure = confidence_histogram(two_bins())
    every, wrong = drawn(figure, "grafted"), drawn(figure, "grafted: wrong")
    assert list(every.x) == [25, 62.5, 87.5] and list(every.width) == [50, 25, 25]
    assert list(every.y) == [0, 75, 25] and list(wrong.y) == pytest.approx([0, 45, 0])
    assert wrong.marker.pattern.shape == "/" and not every.marker.pattern.shape
    assert figure.layout.barmode == "overlay"  # stacked, the two would sum to more than the total
    assert titles(figure) == ["grafted<br>45.0% wrong<br>(hatched)"]
    assert "30 of 40 examples (75.0%)<br>18 of them wrong" in every.hovertext[1]


def test_without_accuracies_nothing_is_called_wrong() -> None:
    figure = confidence_histogram(two_bins().assign(accuracy=float("nan")))
    assert [t.name for t in figure.data] == ["grafted"] and titles(figure) == ["grafted"]
    assert "wrong" not in "".join(figure.data[0].hovertext)


@pytest.mark.parametrize("make", [confidence_histogram, reliability_diagram])
def test_each_model_has_a_panel_of_its_own_with_the_same_axes(make: Callable[..., go.Figure]) -> None:
    figure = make(frames.reliability())
    assert ["".join(title.split("<br>")[:-2]) for title in titles(figure)] == [
        STATES[n].title for n in ("grafted", "finetuned", "temperature")
    ]
    assert [drawn(figure, STATES[n].title).xaxis for n in ("grafted", "finetuned", "temperature")] == ["x", "x2", "x3"]
    assert len({tuple(axis.range) for axis in figure.select_xaxes()}) == 1
    assert [axis.matches for axis in figure.select_yaxes()] == [None, "y", "y"]


def test_more_models_than_a_row_holds_go_on_below() -> None:
    bins = pd.concat([two_bins().assign(state=f"run {i}") for i in range(4)])
    figure = reliability_diagram(bins)
    lefts = [axis.domain[0] for axis in figure.select_xaxes()]
    assert lefts[0] == lefts[2] == 0 and lefts[1] == lefts[3] > 0.5  # two rows of two, not three and one
    assert figure.layout.height == 2 * reliability_diagram(two_bins()).layout.height


def test_a_title_breaks_between_words_alone() -> None:
    name = STATES["temperature"].title
    assert "-" in name and titles(confidence_histogram(two_bins().assign(state="temperature")))[0].startswith(name)


@pytest.mark.parametrize("state", ["grafted", "finetuned", "temperature"])
def test_shares_of_each_state_sum_to_all(state: str) -> None:
    trace = drawn(confidence_histogram(frames.reliability()), STATES[state].title)
    assert np.sum(trace.y) == pytest.approx(100)


def test_the_axis_begins_at_the_lowest_filled_bin() -> None:
    assert confidence_histogram(two_bins()).layout.xaxis.range[0] == 49


def test_an_upright_line_stands_at_the_least_confidence_in_every_panel() -> None:
    lines = confidence_histogram(frames.reliability(), least=0.8).layout.shapes
    assert [(line.x0, line.xref) for line in lines] == [(80, "x"), (80, "x2"), (80, "x3")]


def test_accuracy_stands_with_its_wilson_interval_and_its_count() -> None:
    figure = reliability_diagram(two_bins())
    bars = drawn(figure, "grafted")
    assert list(bars.x) == [62.5, 87.5] and list(bars.y) == pytest.approx([40, 100])
    assert list(bars.error_y.array) == pytest.approx([18, 0])
    assert list(bars.error_y.arrayminus) == pytest.approx([15, 28])
    assert list(drawn(figure, "grafted: examples").text) == ["30", "10"]


def test_counts_are_drawn_in_three_panels_of_fifteen_bins() -> None:
    """This is the first view of the page for a task of four classes."""
    logits = np.random.default_rng(0).normal(0, 3, (400, 4))
    rows = reliability(logits, np.zeros(400, dtype=int), 15, False)
    figure = reliability_diagram(pd.concat(rows.assign(state=s) for s in ("grafted", "finetuned", "temperature")))
    assert sum(trace.name.endswith(": examples") for trace in figure.data) == 3


def test_the_gap_runs_from_accuracy_to_confidence() -> None:
    gap = drawn(reliability_diagram(two_bins()), "grafted: gap")
    assert list(gap.base) == pytest.approx([40, 100]) and list(gap.y) == pytest.approx([20, -10])
    assert gap.marker.pattern.shape == "/"


@pytest.mark.slow
@given(
    logits=arrays(np.float64, (40, 3), elements=st.floats(-4, 4)),
    labels=arrays(np.int64, 40, elements=st.integers(0, 2)),
    bins=st.integers(2, 20), equal_mass=st.booleans(),
)  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_the_title_has_the_ece_of_the_bins(logits: np.ndarray, labels: np.ndarray, bins: int, equal_mass: bool) -> None:
    rows = reliability(logits, labels, bins, equal_mass).assign(state="grafted")
    figure = reliability_diagram(rows)
    said = formats.percent(ece(logits, labels, bins, equal_mass))
    assert figure.layout.annotations[0].text == f"grafted<br>ECE {said}<br>hatched: gap"
    filled = rows[rows["count"] > 0]
    assert list(drawn(figure, "grafted: examples").text) == [f"{int(n):,}" for n in filled["count"]]


def test_the_hover_says_which_way_it_errs() -> None:
    bars = drawn(reliability_diagram(two_bins()), "grafted")
    assert "20.0 points over-confident" in bars.hovertext[0] and "10.0 points under-confident" in bars.hovertext[1]
    assert "n = 30" in bars.hovertext[0] and "(95%: 25.0–58.0)" in bars.hovertext[0]


def test_the_diagonal_is_where_accuracy_is_confidence() -> None:
    diagonal = drawn(reliability_diagram(two_bins()), "accuracy = confidence")
    assert list(diagonal.x) == list(diagonal.y) == [50, 100]


def test_empty_bins_make_no_bar() -> None:
    assert len(drawn(reliability_diagram(two_bins()), "grafted").x) == 2
    nothing = two_bins().assign(count=0)
    assert len(reliability_diagram(nothing).data) == 0 and reliability_diagram(nothing).layout.annotations


def test_an_unknown_state_is_drawn_under_its_own_name() -> None:
    assert drawn(confidence_histogram(two_bins().assign(state="wise-ft")), "wise-ft")


def test_a_smoothed_curve_has_a_band_and_the_diagonal_in_a_panel_of_its_own() -> None:
    line, band = (drawn(figure := draw("smooth_reliability"), name) for name in ("fine-tuned", "fine-tuned: interval"))
    assert titles(figure)[0].startswith("grafted<br>smECE 1.4%") and figure.layout.yaxis.range[1] > 100
    assert line.xaxis == band.xaxis == "x2" and band.fill == "toself" and "examples near" in line.hovertext[0]


def test_risk_is_drawn_to_full_coverage_and_a_few_examples_do_not_stretch_the_axis() -> None:
    figure = draw("risk_coverage")
    line = drawn(figure, "grafted: AURC 7.4% (6.2–8.7)")
    assert line.x[-1] == 100 and line.y[-1] == pytest.approx(15) and "(95%: 0.0–17.0)" in line.hovertext[-1]
    assert max(drawn(figure, "pre-trained: interval").y) > figure.layout.yaxis.range[1] > 35
