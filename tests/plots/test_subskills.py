"""Tests of the figures of sub-skills: every matrix has its line, every part its share in print."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.plots.subskills import loading_map, stability_by_count
from tests.plots import frames
from tests.plots.facts import Holding, facts

OWN = frames.subskill_stability().query("draw == 0")

test_subskills_have = facts(
    {
        "a line of the region, on top, and of each draw, with intervals": (
            lambda: stability_by_count(frames.subskill_stability()),
            {
                "data.*.name": ["random control 2", "random control 1", "region"], "region/x": [2, 3, 4],
                "region/y": pytest.approx(OWN["value"].tolist()),
                "region/error_y.arrayminus": pytest.approx((OWN["value"] - OWN["low"]).tolist()),
                "layout.xaxis.title.text": "sub-skills, number", "layout.yaxis.title.text": Holding("cosine"),
            },
        ),
        "their shares in cells, printed from half a percent": (
            lambda: loading_map(frames.subskill_loadings()),
            {
                "data.0.z": pytest.approx(np.array([[60, 0.4], [40, 10], [0, 89.6], [0, 0]])),
                "data.1.text": ["60%", "40%", "10%", "90%"],
                "layout.yaxis.ticktext": [f"layer {n}, value" for n in range(4)],
                "layout.yaxis.title.text": "part", "layout.xaxis.title.text": "sub-skill",
            },
        ),
    }
)  # fmt: skip
