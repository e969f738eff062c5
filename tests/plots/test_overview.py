"""Tests of the states side by side, each with its mark and interval."""

from __future__ import annotations

import pytest

from skillviz.plots.overview import state_comparison
from skillviz.plots.theme import STATES
from tests.plots import frames


def test_one_panel_a_metric_one_dot_a_state() -> None:
    figure = state_comparison(frames.scores())
    assert len(figure.data) == 3 * 4
    assert [a.title.text for a in figure.select_xaxes()] == ["accuracy, %", "ECE, %", "NLL, nats"]
    first = {t.name: (t.x[0], t.marker.symbol, t.marker.color) for t in figure.data[:4]}
    assert first["grafted"] == (pytest.approx(80.1), "diamond", STATES["grafted"].color)


def test_intervals_reach_from_low_to_high() -> None:
    dot = next(t for t in state_comparison(frames.scores()).data if t.name == "fine-tuned")
    assert dot.x[0] + dot.error_x.array[0] == pytest.approx(88.0)
    assert dot.x[0] - dot.error_x.arrayminus[0] == pytest.approx(84.8)
    assert "86.4% accuracy" in dot.hovertext[0] and "84.8–88.0" in dot.hovertext[0]


def test_the_states_keep_their_order_from_top_to_bottom() -> None:
    turned = frames.scores().iloc[::-1]
    titles = next(state_comparison(turned).select_yaxes()).categoryarray
    assert titles == ("complement", "fine-tuned", "grafted", "pre-trained")


def test_only_metrics_that_were_taken_have_a_panel() -> None:
    scores = frames.scores()
    figure = state_comparison(scores[scores["metric"] != "ece"])
    assert [a.title.text for a in figure.select_xaxes()] == ["accuracy, %", "NLL, nats"]


def test_chance_stands_in_the_first_panel_and_in_the_legend() -> None:
    figure = state_comparison(frames.scores(), references={"chance": 0.6, "majority": 0.62})
    assert [(s.x0, s.xref) for s in figure.layout.shapes] == [(60, "x"), (62, "x")]
    shown = [t.name for t in figure.data if t.showlegend is not False]
    assert shown == ["chance 60.0%", "majority 62.0%"]
    assert next(figure.select_xaxes()).range[0] < 60


def test_chance_far_below_is_named_and_does_not_flatten_the_states() -> None:
    figure = state_comparison(frames.scores(), references={"chance": 0.25, "majority": 0.62})
    assert [s.x0 for s in figure.layout.shapes] == [62]
    (chance,) = [t for t in figure.data if t.name == "chance 25.0%, off the scale"]
    assert chance.mode == "markers" and chance.marker.symbol == "triangle-left"
    assert 55 < next(figure.select_xaxes()).range[0] < 62


def test_a_missing_interval_is_said() -> None:
    dot = state_comparison(frames.scores().assign(low=float("nan"), high=float("nan"))).data[0]
    assert "n/a to n/a" not in dot.hovertext[0] and "no interval" in dot.hovertext[0]
