"""Tests of the figures of sub-skills: every matrix has its line, every part its share in print."""

from __future__ import annotations

import numpy as np

from skillviz.plots.subskills import loading_map, stability_by_count
from tests.plots import frames


def test_the_region_and_each_draw_have_their_line_and_intervals() -> None:
    table = frames.subskill_stability()
    figure = stability_by_count(table)
    assert [trace.name for trace in figure.data] == ["random control 2", "random control 1", "region"], "region on top"
    region, rows = figure.data[-1], table[table["draw"] == 0]
    assert np.allclose(region.y, rows["value"]) and list(region.x) == [2, 3, 4]
    assert np.allclose(np.asarray(region.y) - np.asarray(region.error_y.arrayminus), rows["low"])
    assert figure.layout.xaxis.title.text == "sub-skills, number" and "cosine" in figure.layout.yaxis.title.text


def test_shares_stand_in_their_cells() -> None:
    figure = loading_map(frames.subskill_loadings())
    cells, numbers = figure.data
    assert np.allclose(cells.z, [[60, 0.4], [40, 10], [0, 89.6], [0, 0]])
    assert numbers.text == ("60%", "40%", "10%", "90%"), "less than half a percent is not printed"
    assert list(figure.layout.yaxis.ticktext) == [f"layer {n}, value" for n in range(4)]
    assert figure.layout.yaxis.title.text == "part" and figure.layout.xaxis.title.text == "sub-skill"
