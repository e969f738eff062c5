"""Tests of a panel per model: bars show shares with the wrong part; accuracy with its interval, gap, count and ECE."""

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
from tests.plots.facts import Between, Holding, Of, facts, read

TITLES = [STATES[name].title for name in ("grafted", "finetuned", "temperature")]


def two_bins(**changes: object) -> pd.DataFrame:
    """Return two filled bins by hand (30 with confidence 60%, 40% right; 10 with 90%, all right) and an empty one."""
    return pd.DataFrame({
        "bin": [0, 1, 2], "lower": [0.0, 0.5, 0.75], "upper": [0.5, 0.75, 1.0], "count": [0, 30, 10],
        "confidence": [np.nan, 0.6, 0.9], "accuracy": [np.nan, 0.4, 1.0], "low": [np.nan, 0.25, 0.72],
        "high": [np.nan, 0.58, 1.0], "state": "grafted",
    }).assign(**changes)  # fmt: skip


def titles(layout: go.Layout) -> list[str]:
    return [note.text.replace("\N{NO-BREAK SPACE}", " ") for note in layout.annotations]


def names(layout: go.Layout) -> list[str]:
    """Return the models in the panels' titles, without the two lines below each."""
    return ["".join(title.split("<br>")[:-2]) for title in titles(layout)]


# The first view of the page for a task of four classes.
FOUR_CLASSES = reliability(np.random.default_rng(0).normal(0, 3, (400, 4)), np.zeros(400, dtype=int), 15, False)


test_a_panel_shows = facts(
    {
        "shares of the examples as bars, the wrong part hatched and not on top": (
            lambda: confidence_histogram(two_bins()),
            {
                "grafted/x": [25, 62.5, 87.5], "grafted/width": [50, 25, 25], "grafted/y": [0, 75, 25],
                "grafted: wrong/y": pytest.approx([0, 45, 0]), "grafted: wrong/marker.pattern.shape": "/",
                "grafted/marker.pattern.shape": None, "layout.barmode": "overlay",
                "grafted/hovertext.1": Holding("30 of 40 examples (75.0%)<br>18 of them wrong"),
                "layout.xaxis.range.0": 49,
            },
        ),
        "nothing as wrong without accuracies": (
            lambda: confidence_histogram(two_bins(accuracy=np.nan)),
            {
                "data.*.name": ["grafted"], "layout.annotations.*.text": ["grafted"],
                **{f"grafted/hovertext.{number}": Holding(but=("wrong",)) for number in range(3)},
            },
        ),
        "an upright line at the least confidence in every panel": (
            lambda: confidence_histogram(frames.reliability(), least=0.8),
            {"layout.shapes.*.x0": [80, 80, 80], "layout.shapes.*.xref": ["x", "x2", "x3"]},
        ),
        "accuracy with its Wilson interval and its count, and no bar of an empty bin": (
            lambda: reliability_diagram(two_bins()),
            {
                "grafted/x": [62.5, 87.5], "grafted/y": pytest.approx([40, 100]),
                "grafted/error_y.array": pytest.approx([18, 0]),
                "grafted/error_y.arrayminus": pytest.approx([15, 28]), "grafted: examples/text": ["30", "10"],
            },
        ),
        "the gap from accuracy to confidence": (
            lambda: reliability_diagram(two_bins()),
            {
                "grafted: gap/base": pytest.approx([40, 100]), "grafted: gap/y": pytest.approx([20, -10]),
                "grafted: gap/marker.pattern.shape": "/",
            },
        ),
        "which way it errs": (
            lambda: reliability_diagram(two_bins()),
            {
                "grafted/hovertext.0": Holding("20.0 points over-confident", "n = 30", "(95%: 25.0–58.0)"),
                "grafted/hovertext.1": Holding("10.0 points under-confident"),
            },
        ),
        "the diagonal where accuracy is confidence": (
            lambda: reliability_diagram(two_bins()),
            {"accuracy = confidence/x": [50, 100], "accuracy = confidence/y": [50, 100]},
        ),
        "shares of each model that sum to all": (
            lambda: confidence_histogram(frames.reliability()),
            {f"{title}/y": Of(np.sum, pytest.approx(100)) for title in TITLES},
        ),
        "both kinds of text as shares of their kind": (
            lambda: scope_histogram(frames.scopes(), {"grafted": "AUROC 84.0%"}),
            {
                "data.*.y": [Of(np.sum, pytest.approx(100))] * 6, "layout.annotations": Of(str, Holding("AUROC 84.0%")),
                "data": Of(lambda bars: [(bool(b.marker.pattern.shape), "out of scope" in b.name) for b in bars],
                           [(False, False), (True, True)] * 3),
            },
        ),
        "a sentence where there is nothing": (
            lambda: reliability_diagram(two_bins(count=0)),
            {"data": [], "layout.annotations.0.text": Holding()},
        ),
        "an unknown state under its own name": (
            lambda: confidence_histogram(two_bins(state="wise-ft")), {"data.*.name": Holding("wise-ft")}
        ),
        "a smoothed curve with a band in a panel of its own": (
            lambda: draw("smooth_reliability"),
            {
                "fine-tuned/xaxis": "x2", "fine-tuned: interval/xaxis": "x2", "fine-tuned: interval/fill": "toself",
                "fine-tuned/hovertext.0": Holding("examples near"), "layout.yaxis.range.1": Between(100, np.inf),
                "layout.annotations.0.text": Holding("grafted<br>smECE"),
                "layout": Of(lambda layout: titles(layout)[0],
                             "grafted<br>smECE 1.4%<br>(0.0–2.2)<br>ECE 0.0%<br>(0.0–2.3)"),
            },
        ),
        **{
            f"what is wrong in a title whose lines three panels hold on a phone: {state}": (
                lambda state=state: confidence_histogram(two_bins(state=state)),
                {"layout": Of(titles, [f"{name}<br>45.0% wrong<br>(hatched)"])},
            )
            for state, name in (
                ("grafted", "grafted"), ("finetuned", "fine-tuned"), ("temperature", "temperature-<br>scaled"),
            )
        },
        **{
            f"one model, and all panels have the same axes: {make.__name__}": (
                lambda make=make: make(frames.reliability()),
                {
                    "layout": Of(names, TITLES), "layout.yaxis.matches": None, "layout.yaxis2.matches": "y",
                    "layout.yaxis3.matches": "y", **{f"{TITLES[n - 1]}/xaxis": f"x{n}" for n in (2, 3)},
                    f"{TITLES[0]}/xaxis": "x",
                    **{f"layout.xaxis{n}.range": list(make(frames.reliability()).layout.xaxis.range) for n in (2, 3)},
                },
            )
            for make in (confidence_histogram, reliability_diagram)
        },
        "four models in two rows of two, not in three and one": (
            lambda: reliability_diagram(pd.concat([two_bins(state=f"run {i}") for i in range(4)])),
            {
                "layout.xaxis.domain.0": 0, "layout.xaxis2.domain.0": Between(0.5, 1), "layout.xaxis3.domain.0": 0,
                "layout": Of(lambda layout: layout.xaxis4.domain[0] == layout.xaxis2.domain[0], True),
                "layout.height": 2 * reliability_diagram(two_bins()).layout.height,
            },
        ),
        "the counts in three panels of fifteen bins": (
            lambda: reliability_diagram(
                pd.concat(FOUR_CLASSES.assign(state=s) for s in ("grafted", "finetuned", "temperature"))
            ),
            {"data.*.name": Of(lambda of: sum(name.endswith(": examples") for name in of), 3)},
        ),
        "risk to full coverage, in an axis that a few examples do not stretch": (
            lambda: draw("risk_coverage"),
            {
                "grafted: AURC 7.4% (6.2–8.7)/x.-1": 100,
                "grafted: AURC 7.4% (6.2–8.7)/y.-1": pytest.approx(15),
                "grafted: AURC 7.4% (6.2–8.7)/hovertext.-1": Holding("(95%: 0.0–17.0)"),
                "layout.yaxis.range.1": Between(35, max(read(draw("risk_coverage"), "pre-trained: interval/y")[0])),
            },
        ),
    }
)  # fmt: skip


@pytest.mark.slow
@given(
    logits=arrays(np.float64, (40, 3), elements=st.floats(-4, 4)),
    labels=arrays(np.int64, 40, elements=st.integers(0, 2)),
    bins=st.integers(2, 20), equal_mass=st.booleans(),
)  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_the_title_has_the_ece_of_the_bins(logits: np.ndarray, labels: np.ndarray, bins: int, equal_mass: bool) -> None:
    rows = reliability(logits, labels, bins, equal_mass).assign(state="grafted")
    assert read(reliability_diagram(rows), "layout.annotations.0.text", "grafted: examples/text") == [
        f"grafted<br>ECE {formats.percent(ece(logits, labels, bins, equal_mass))}<br>hatched: gap",
        [f"{int(n):,}" for n in rows["count"] if n > 0],
    ]
