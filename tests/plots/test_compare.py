"""Tests of several runs side by side: rows, the baseline at zero, distinct marks for runs of one localizer."""

from __future__ import annotations

import pytest

from skillviz.plots.compare import differences, run_styles, values
from skillviz.plots.theme import LOCALIZERS
from tests.plots import compare_frames as several
from tests.plots.facts import Holding, facts

OWN = LOCALIZERS["stagewise"]
ROW = several.scores().query("run == @several.KEYS[1] and metric == 'accuracy'").iloc[0]
NO_ENDS = several.scores().assign(low=float("nan"), high=float("nan"))

test_of_several_runs_there_is = facts(
    {
        "a panel a metric and a row a run, with intervals and without a legend": (
            lambda: values(several.scores(), several.STYLES),
            {
                "layout.xaxis.title.text": "accuracy, %", "layout.xaxis2.title.text": "ECE, %",
                "layout.xaxis3.title.text": "NLL, nats", "layout": Holding("xaxis3", but=("xaxis4",)),
                "layout.yaxis.categoryarray": list(several.KEYS)[::-1], "layout.showlegend": False,
                "data.1.legendgroup": several.KEYS[1], "data.1.x.0": pytest.approx(100 * ROW["value"]),
                "data.1.error_x.array.0": pytest.approx(100 * (ROW["high"] - ROW["value"])),
            },
        ),
        "an upright line at the baseline, one way on every panel": (
            lambda: differences(several.differences(), several.STYLES, several.KEYS[0]),
            {
                "layout.xaxis.title.text": "accuracy − baseline,<br>points",
                "layout.xaxis2.title.text": "ECE − baseline, points",
                "layout.shapes.*.x0": [0] * 3, "layout.shapes.*.x1": [0] * 3,
                "layout.yaxis.categoryarray": Holding(but=(several.KEYS[0],)),
                "data.0.hovertext.0": Holding("points against stagewise, seed 0"),
            },
        ),
        "no panel of a metric that no run has, and words for a missing interval": (
            lambda: values(NO_ENDS, several.STYLES, ("f1", "accuracy")),
            {
                "layout.xaxis.title.text": "accuracy, %", "layout": Holding("xaxis", but=("xaxis2",)),
                "data.0.hovertext.0": Holding("no interval"),
                "data.0.error_x.array.0": pytest.approx(float("nan"), nan_ok=True),
            },
        ),
    }
)  # fmt: skip


def test_every_run_is_named_and_zero_is_within_every_panel() -> None:
    ticks = values(several.scores(), several.STYLES).layout.yaxis.ticktext
    assert [tick.replace("<br>", " ") for tick in ticks] == list(several.KEYS)
    axes = differences(several.differences(), several.STYLES, several.KEYS[0]).select_xaxes()
    assert [axis.range for axis in axes if not axis.range[0] < 0 < axis.range[1]] == []


def test_runs_of_one_localizer_share_its_colour_and_no_mark() -> None:
    styles = [several.STYLES[key] for key in several.KEYS[:3]]
    assert {style.color for style in styles} == {OWN.color}
    assert len({style.symbol for style in styles}) == len({style.dash for style in styles}) == 3
    assert (styles[0].symbol, styles[0].dash) == (OWN.symbol, OWN.dash)


def test_the_first_run_of_a_localizer_keeps_its_own_mark_whoever_came_before() -> None:
    styles = run_styles((("A", "stagewise"), ("B", "stagewise"), ("C", "frank-wolfe")))
    assert styles["C"].symbol == LOCALIZERS["frank-wolfe"].symbol != styles["B"].symbol


@pytest.mark.parametrize("name", [*LOCALIZERS, "one of my own"])
def test_six_runs_of_any_localizer_have_six_marks(name: str) -> None:
    styles = run_styles([(key, name) for key in several.KEYS])
    assert len({(style.symbol, style.dash) for style in styles.values()}) == 6
