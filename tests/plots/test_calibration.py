"""Outlines hold the shares, marks stand at confidence and accuracy, the gap is theirs to the diagonal."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.plots.calibration import bin_counts, confidence_histogram, reliability_diagram
from skillviz.plots.theme import STATES
from tests.plots import frames


def two_bins() -> pd.DataFrame:
    """Two filled bins by hand: 30 of 60 % sure and 40 % right, 10 of 90 % sure and all right; and an empty one."""
    nan = float("nan")
    table = pd.DataFrame({"bin": [0, 1, 2], "lower": [0.0, 0.5, 0.75], "upper": [0.5, 0.75, 1.0], "count": [0, 30, 10]})
    table = table.assign(
        confidence=[nan, 0.6, 0.9], accuracy=[nan, 0.4, 1.0], low=[nan, 0.25, 0.72], high=[nan, 0.58, 1.0]
    )
    return table.assign(state="grafted")


def drawn(figure, name: str):  # type: ignore[no-untyped-def]
    """The trace of a state that carries its points."""
    return next(t for t in figure.data if t.name == name and len(t.x) > 1)


def test_the_outline_is_the_share_of_examples_and_closes_at_zero() -> None:
    trace = drawn(confidence_histogram(two_bins()), "grafted")
    assert list(trace.x) == [0, 0, 25, 50, 50, 62.5, 75, 75, 87.5, 100, 100]
    assert list(trace.y) == [0, 0, 0, 0, 75, 75, 75, 25, 25, 25, 0]
    assert list(trace.marker.size) == [0, 0, 7, 0, 0, 7, 0, 0, 7, 0, 0]


def test_counts_are_counts() -> None:
    assert max(drawn(bin_counts(two_bins()), "grafted").y) == 30
    assert "30 of 40 examples (75.0 %)" in drawn(bin_counts(two_bins()), "grafted").hovertext[5]


def test_outlines_are_lines_of_three_states_not_bars() -> None:
    figure = confidence_histogram(frames.reliability())
    assert {t.type for t in figure.data} == {"scatter"} and not any(t.fill for t in figure.data)
    shown = [(t.name, t.line.color, t.line.dash, t.marker.symbol) for t in figure.data if t.showlegend is not False]
    wanted = [STATES[n] for n in ("grafted", "finetuned", "temperature")]
    assert shown == [(s.title, s.color, s.dash, s.symbol) for s in wanted]


@pytest.mark.parametrize("state", ["grafted", "finetuned", "temperature"])
def test_shares_of_each_state_sum_to_all(state: str) -> None:
    trace = drawn(confidence_histogram(frames.reliability()), STATES[state].title)
    assert np.array(trace.y)[np.array(trace.marker.size) > 0].sum() == pytest.approx(100)


def test_the_axis_begins_at_the_lowest_filled_bin() -> None:
    assert confidence_histogram(two_bins()).layout.xaxis.range[0] == 49


def test_marks_stand_at_confidence_and_accuracy_with_their_wilson_interval() -> None:
    figure = reliability_diagram(two_bins())
    marks = next(t for t in figure.data if t.name == "grafted")
    assert list(marks.x) == pytest.approx([60, 90]) and list(marks.y) == pytest.approx([40, 100])
    assert list(marks.error_y.array) == pytest.approx([18, 0]) and list(marks.error_y.arrayminus) == pytest.approx(
        [15, 28]
    )


def test_the_area_of_a_mark_is_its_count() -> None:
    marks = next(t for t in reliability_diagram(two_bins()).data if t.name == "grafted")
    large, small = marks.marker.size
    assert (large / small) ** 2 == pytest.approx(30 / 10)
    assert large / small != pytest.approx(30 / 10)  # a radius that grows with the count would be caught


def test_the_gap_runs_from_the_diagonal_to_the_mark() -> None:
    gap = next(t for t in reliability_diagram(two_bins()).data if t.name == "grafted: gap")
    assert list(gap.y)[:2] == [60, 40] and list(gap.y)[3:5] == [90, 100]
    assert np.isnan(gap.y[2]) and list(gap.x)[:2] == [60, 60]


def test_the_hover_says_which_way_it_errs() -> None:
    marks = next(t for t in reliability_diagram(two_bins()).data if t.name == "grafted")
    assert "20.0 points over-confident" in marks.hovertext[0] and "10.0 points under-confident" in marks.hovertext[1]
    assert "n = 30" in marks.hovertext[0] and "(95 %: 25.0 to 58.0)" in marks.hovertext[0]


def test_the_diagonal_is_named() -> None:
    figure = reliability_diagram(two_bins())
    diagonal = next(t for t in figure.data if t.name == "perfectly calibrated")
    assert list(diagonal.x) == list(diagonal.y) == [50, 100]
    (label,) = figure.layout.annotations
    assert label.text == "perfectly calibrated" and label.y > 100  # above what any accuracy can reach
    assert figure.layout.yaxis.range[1] > label.y


def test_every_interval_is_inside_the_axis() -> None:
    low, high = reliability_diagram(two_bins()).layout.yaxis.range
    assert low < 25 and high > 100


def test_empty_bins_make_no_mark() -> None:
    assert all(len(t.x) == 2 for t in reliability_diagram(two_bins()).data if t.name == "grafted")
    nothing = two_bins().assign(count=0)
    assert len(reliability_diagram(nothing).data) == 0 and reliability_diagram(nothing).layout.annotations


def test_an_unknown_state_is_drawn_under_its_own_name() -> None:
    assert drawn(confidence_histogram(two_bins().assign(state="wise-ft")), "wise-ft")
