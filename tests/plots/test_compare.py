"""Tests of several runs side by side: rows, the baseline at zero, distinct marks for runs of one localizer."""

from __future__ import annotations

import pandas as pd
import pytest

from skillviz.plots.compare import differences, run_styles, values
from skillviz.plots.theme import LOCALIZERS
from tests.plots import compare_frames as several


def test_runs_of_one_localizer_share_its_colour_and_no_mark() -> None:
    styles = [several.STYLES[key] for key in several.KEYS[:3]]
    assert {style.color for style in styles} == {LOCALIZERS["stagewise"].color}
    assert len({style.symbol for style in styles}) == len({style.dash for style in styles}) == 3
    assert (styles[0].symbol, styles[0].dash) == (LOCALIZERS["stagewise"].symbol, LOCALIZERS["stagewise"].dash)


def test_the_first_run_of_a_localizer_keeps_its_own_mark_whoever_came_before() -> None:
    styles = run_styles((("A", "stagewise"), ("B", "stagewise"), ("C", "frank-wolfe")))
    assert styles["C"].symbol == LOCALIZERS["frank-wolfe"].symbol != styles["B"].symbol


@pytest.mark.parametrize("name", [*LOCALIZERS, "one of my own"])
def test_six_runs_of_any_localizer_have_six_marks(name: str) -> None:
    styles = run_styles([(key, name) for key in several.KEYS])
    assert len({(style.symbol, style.dash) for style in styles.values()}) == 6


def test_values_have_a_panel_a_metric_and_a_row_a_run() -> None:
    figure = values(several.scores(), several.STYLES)
    assert [a.title.text for a in figure.select_xaxes()] == ["accuracy, %", "ECE, %", "NLL, nats"]
    assert list(figure.layout.yaxis.categoryarray) == list(several.KEYS)[::-1]
    assert [tick.replace("<br>", " ") for tick in figure.layout.yaxis.ticktext] == list(several.KEYS)
    assert figure.layout.showlegend is False
    row = several.scores().query("run == @several.KEYS[1] and metric == 'accuracy'").iloc[0]
    dot = next(t for t in figure.data if t.legendgroup == several.KEYS[1])
    assert dot.x[0] == pytest.approx(100 * row["value"])
    assert dot.error_x.array[0] == pytest.approx(100 * (row["high"] - row["value"]))


def test_differences_stand_against_an_upright_line_at_the_baseline() -> None:
    figure = differences(several.differences(), several.STYLES, several.KEYS[0])
    assert [a.title.text for a in figure.select_xaxes()][:2] == [
        "accuracy − baseline,<br>points",
        "ECE − baseline, points",
    ], "one way on every panel, however long the baseline's name"
    assert [(s.x0, s.x1) for s in figure.layout.shapes] == [(0, 0)] * 3
    assert several.KEYS[0] not in figure.layout.yaxis.categoryarray
    assert all(a.range[0] < 0 < a.range[1] for a in figure.select_xaxes())
    assert "points against stagewise, seed 0" in figure.data[0].hovertext[0]


def test_a_metric_that_no_run_has_leaves_no_panel_and_a_missing_interval_is_said() -> None:
    table = several.scores().assign(low=float("nan"), high=float("nan"))
    figure = values(table, several.STYLES, ("f1", "accuracy"))
    assert [a.title.text for a in figure.select_xaxes()] == ["accuracy, %"]
    assert figure.data[0].hovertext[0].endswith("no interval")
    assert pd.isna(figure.data[0].error_x.array[0])
