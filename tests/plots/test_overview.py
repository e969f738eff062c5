"""Tests of the states side by side, each with its mark and interval."""

from __future__ import annotations

import pandas as pd
import pytest

from skillviz.plots.overview import search_history, state_comparison
from skillviz.plots.theme import LOCALIZERS, STATES
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


def test_two_panels_share_the_step_axis() -> None:
    figure = search_history(frames.history())
    assert [t.yaxis for t in figure.data] == ["y", "y2", "y2"]
    assert figure.layout.xaxis.matches == "x2" and figure.layout.xaxis2.title.text == "step, number"
    assert figure.layout.yaxis.title.text == "training loss, nats"


def test_on_goes_up_and_off_goes_down_hatched() -> None:
    table = frames.history()
    _, on, off = search_history(table).data
    assert list(on.y) == list(table["added"]) and list(off.y) == list(-table["removed"])
    assert off.marker.pattern.shape == "/" and on.marker.pattern.shape is None
    assert list(off.customdata) == list(table["removed"])  # the hover shows the count without the sign


def test_steps_are_drawn_in_order() -> None:
    turned = search_history(frames.history().iloc[::-1])
    assert list(turned.data[0].x) == sorted(turned.data[0].x)


def test_several_localizers_stand_side_by_side_in_their_styles() -> None:
    both = pd.concat([frames.history(5), frames.history(5, "frank-wolfe")])
    figure = search_history(both)
    shown = [(t.name, t.line.color) for t in figure.data if t.showlegend is not False]
    assert shown == [(LOCALIZERS[n].title, LOCALIZERS[n].color) for n in ("stagewise", "frank-wolfe")]
    assert {t.offsetgroup for t in figure.data if t.type == "bar"} == {"stagewise", "frank-wolfe"}


def test_searches_of_several_sizes_are_refused() -> None:
    both = pd.concat([frames.history(5), frames.history(5).assign(target=1_064)])
    with pytest.raises(ValueError, match="choose one target size a localizer; given: 1,064, 10,646"):
        search_history(both)


def test_a_loss_that_was_not_taken_is_a_gap() -> None:
    table = frames.history(4).assign(loss=[0.5, None, 0.4, 0.3])
    assert search_history(table).data[0].connectgaps is None
