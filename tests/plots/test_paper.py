"""Tests that published and measured values are separate: hollow marks, named in the legend, deviations labeled."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.plots.paper import SAYS, beside, comparisons
from tests.plots import study_frames as frames
from tests.plots.facts import Between, Holding, Of, facts, read

TWO = ["SST-2", "QNLI to MNLI (0/1)"]
CLAIM = frames.claim()


def ours(less: float) -> pd.DataFrame:
    """Return the published rows with a debiased value of our graft on SST-2, so much below."""
    rows = frames.published()
    own = (rows["source"] == "here") & (rows["method"] == "graft") & (rows["task"] == "SST-2")
    return rows.assign(debiased=(rows["value"] - less).where(own))


test_beside_the_paper_there_are = facts(
    {
        "hollow marks of published values and filled ones of ours": (
            lambda: beside(frames.published(), [*TWO, "AGNews"]),
            {
                "graft, here/marker.symbol": "diamond", "graft, published/marker.symbol": "diamond-open",
                "fine-tuned, here/marker.symbol": "circle", "fine-tuned, published/marker.symbol": "circle-open",
                "data.*.type": ["scatter"] * 4,
            },
        ),
        "the tasks in the order that was asked for": (
            lambda: beside(frames.published(), ["AGNews", "SST-2"]),
            {"layout.yaxis.ticktext": ["AGNews", "SST-2"], "graft, here/x": [Between(0, 100)]},
        ),
        "words for a published bracket, for its absence and for our interval": (
            lambda: beside(frames.published(), TWO),
            {
                "graft, published/hovertext.0": Holding("standard deviation"),
                "graft, published/hovertext.1": Holding("no deviation is printed"),
                "graft, here/hovertext.0": Holding("95%"),
            },
        ),
        "shares on an axis that ends where they do": (
            lambda: beside(frames.published().assign(low=0.0, high=1.0), ["SST-2"]), {"layout.xaxis.range": [0, 100]}
        ),
        "no strokes without a debiased value": (
            lambda: beside(frames.published(), ["SST-2"]), {"data.*.type": ["scatter"] * 4}
        ),
        "our plug-in calibration error and a stroke where its interval stands": (
            lambda: beside(ours(0.01), ["SST-2"]),
            {"graft, here/hovertext.0": Holding("plug-in")},
        ),
        "the comparisons of a claim in their order": (
            lambda: comparisons(CLAIM, "points", (0.0,)),
            {
                "layout.yaxis.ticktext": CLAIM["where"].tolist(), "data.*.name": list(SAYS),
                "data.*.marker.symbol": list(SAYS.values()), "data.*.marker.color": Of(lambda of: len(set(of)), 1),
            },
        ),
        "the limit of a claim in its unit and in sight": (
            lambda: comparisons(CLAIM, "percent", (0.95,)),
            {
                "layout.shapes.*.x0": [pytest.approx(95)], "layout.xaxis.range.0": Between(-np.inf, 95),
                "layout.xaxis.range.1": Between(95, np.inf),
            },
        ),
        "both limits of a claim": (
            lambda: comparisons(CLAIM, "points", (-0.03, 0.03)), {"layout.shapes.*.type": ["line", "line"]}
        ),
        "a calibration error within its interval": (
            lambda: comparisons(CLAIM.assign(debiased=[0.045, *[np.nan] * (len(CLAIM) - 1)]), "points", (0.0,)),
            {"data.0.x.0": pytest.approx(4.5), "data.0.error_x.array.0": pytest.approx(2.5)},
        ),
    }
)  # fmt: skip


def test_every_verdict_has_its_mark() -> None:
    assert len(set(SAYS.values())) == len(SAYS)


def test_marks_of_a_task_do_not_hide_each_other() -> None:
    (heights,) = read(beside(frames.published(), ["SST-2"]), "data.*.y")
    assert len({round(float(y), 6) for (y,) in heights}) == 4 and np.abs(heights).max() < 0.5
    (counts,) = read(beside(frames.published(), ["AGNews", "SST-2"]), "data.*.x")
    assert [len(x) for x in counts] == [1, 2, 1, 2]


def test_the_stroke_of_a_debiased_error_stands_beside_its_mark() -> None:
    marks = {t.marker.symbol: (t.x[0], t.y, t.hovertext[0]) for t in beside(ours(0.01), ["SST-2"]).data}
    (x, y, _), stroke = marks["diamond"], marks["line-ns-open"]
    assert stroke == (pytest.approx(x - 1), y, Holding("debiased"))
