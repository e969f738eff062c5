"""Tests of confusion matrices and per-class marks: counts in their cells, shares of the true class, nothing more."""

from __future__ import annotations

import pandas as pd
import pytest

from skillviz.plots.classes import class_results, confusion_matrix
from tests.plots import example_frames as single
from tests.plots.facts import Between, Of, facts

NAN = pytest.approx(float("nan"), nan_ok=True)
# Three of four negatives are right, and one of two positives.
COUNTS = pd.DataFrame([(0, 0, 3), (0, 1, 1), (1, 0, 1), (1, 1, 1)], columns=["true", "predicted", "count"])
RECALL = single.class_rows().query("state == 'grafted' and metric == 'recall'")

test_classes_have = facts(
    {
        "their counts and shares of the true class, the right ones framed": (
            lambda: confusion_matrix(COUNTS, single.TWO),
            {
                "data.0.z": [[75, 25], [50, 50]], "data.1.text": ["3", "1", "1", "1"],
                "data.1.y": [0, 0, 1, 1], "data.1.x": [0, 1, 0, 1],
                "data.0.customdata.0.1": "<b>negative</b><br>1 taken for positive (25.0% of the class)",
                "layout.shapes.*.x0": [-0.5, 0.5], "layout.shapes.*.y0": [-0.5, 0.5],
                "layout.xaxis.ticktext": list(single.TWO),
            },
        ),
        "numbers where they are many, and no shares without examples": (
            lambda: confusion_matrix(single.confusions(14), single.FOURTEEN),
            {
                "layout.xaxis.ticktext": [str(i) for i in range(1, 15)],
                "layout.yaxis.ticktext.1": "2 Education…", "data.0.z.13": [NAN] * 14,
                "data.1.text": Of(lambda words: max(map(float, words)) <= 100, True),
            },
        ),
        "numbers where two names are long": (
            lambda: confusion_matrix(COUNTS, ("entailment", "not_entailment")),
            {"layout.xaxis.ticktext": ["1", "2"], "layout.yaxis.ticktext.1": "2 not_entailment"},
        ),
        "marks with intervals": (
            lambda: class_results(single.class_rows(), single.TWO, "recall"),
            {
                "data.*.name": ["pre-trained", "grafted", "fine-tuned"],
                "grafted/x": pytest.approx((100 * RECALL["value"]).tolist()),
                "grafted/y": pytest.approx([0, 1], abs=0.4), "grafted/error_x.arrayminus": pytest.approx([5, 5]),
                "layout.yaxis.ticktext": ["negative<br>n = 10", "positive<br>n = 410"],
            },
        ),
        "no share of nothing": (
            lambda: class_results(single.class_rows(), single.TWO, "precision"),
            {"data.0.x": [NAN, Between(0, 100)], "data.0.hovertext.0": "negative: n/a"},
        ),
    }
)  # fmt: skip
