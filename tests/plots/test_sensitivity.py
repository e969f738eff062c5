"""Tests of the constants of a search: rates first, then searches with a given size; a series per choice; log sizes."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.plots.sensitivity import FREE, SIZED, by_setting
from skillviz.plots.theme import GROUND
from tests.plots import study_frames as frames
from tests.plots.facts import Between, Holding, facts
from tests.plots.test_theme import contrast

ROW = 100 * frames.settings().query("metric == 'size'")[["value", "high"]].iloc[0]
SERIES = [
    "25 steps, bias 5", "100 steps, bias 5", "25 steps, bias 10", "100 steps, bias 10",
    "25 steps, batch 32", "100 steps, batch 32", "25 steps, batch 128", "100 steps, batch 128",
]  # fmt: skip

test_settings_have = facts(
    {
        "rates first, and searches told their size beside them": (
            lambda: by_setting(frames.settings()),
            {
                "layout.xaxis.ticktext": [
                    "10<sup>6</sup>", "10<sup>7</sup>", "10<sup>8</sup>", "stagewise", "learned,<br>ranked"
                ],
                "layout.shapes.*.x0": [2.5],
            },
        ),
        "a series a choice of constants, with lines of the learned mask's": (
            lambda: by_setting(frames.settings()),
            {
                "data.*.name": SERIES, f"{SERIES[0]}/mode": "lines+markers", f"{SERIES[4]}/mode": "markers",
                f"{SERIES[0]}/x": [Between(n - 0.4, n + 0.4) for n in range(3)],
                f"{SERIES[4]}/x": [Between(n - 0.4, n + 0.4) for n in (4, 3)],
            },
        ),
        "sizes on a log axis, with their ends": (
            lambda: by_setting(frames.settings()),
            {
                "data.0.y.0": pytest.approx(ROW["value"]),
                "data.0.error_y.array.0": pytest.approx(ROW["high"] - ROW["value"]), "layout.yaxis.type": "log",
                "layout.yaxis.range.0": Between(-np.inf, np.log10(ROW["value"])),
                "layout.yaxis.range.1": Between(np.log10(ROW["value"]), np.inf),
                "data.0.hovertext.0": Holding("0.016%", "rate 10<sup>6</sup>"),
            },
        ),
        "scores on an axis of percent": (
            lambda: by_setting(frames.settings(), "accuracy"),
            {"layout.yaxis.type": None, "layout.yaxis.title.text": "accuracy, %"},
        ),
        "no line between searches that are all told their size": (
            lambda: by_setting(frames.settings().query("localizer != 'learned'"), "accuracy"),
            {"layout.shapes": [], "data.*.name": SERIES[4:]},
        ),
    }
)  # fmt: skip


def test_marks_of_one_place_stand_apart_and_every_series_has_its_look() -> None:
    traces = by_setting(frames.settings()).data
    at = np.array([trace.x[0] for trace in traces[:4]])
    assert len(set(at)) == 4 and (np.abs(at) < 0.4).all()
    assert len({(t.line.color, t.marker.symbol) for t in traces}) == len(traces)


@pytest.mark.parametrize("color", [*FREE, *SIZED])
def test_colours_are_seen_on_both_grounds(color: str) -> None:
    assert min(contrast(color, ground) for ground in GROUND.values()) >= 3
