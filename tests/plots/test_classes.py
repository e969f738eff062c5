"""Tests of confusion matrices and per-class marks: counts in their cells, shares of the true class, nothing more."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.plots.classes import class_results, confusion_matrix
from tests.plots import example_frames as single


def counts() -> pd.DataFrame:
    """Return three of four negatives right, one of two positives."""
    rows = [(0, 0, 3), (0, 1, 1), (1, 0, 1), (1, 1, 1)]
    return pd.DataFrame(rows, columns=["true", "predicted", "count"])


def test_a_cell_holds_its_count_and_the_share_of_the_true_class() -> None:
    cells, numbers = confusion_matrix(counts(), single.TWO).data
    assert np.asarray(cells.z).tolist() == [[75, 25], [50, 50]]
    assert dict(zip(zip(numbers.y, numbers.x, strict=True), numbers.text, strict=True)) == {
        (0, 0): "3", (0, 1): "1", (1, 0): "1", (1, 1): "1"
    }  # fmt: skip
    assert cells.customdata[0][1] == "<b>negative</b><br>1 taken for positive (25.0% of the class)"


def test_what_is_right_is_framed() -> None:
    frames = confusion_matrix(counts(), single.TWO).layout.shapes
    assert [(f.x0, f.y0) for f in frames] == [(-0.5, -0.5), (0.5, 0.5)]


def test_many_classes_show_shares_and_numbers() -> None:
    figure = confusion_matrix(single.confusions(14), single.FOURTEEN)
    assert figure.layout.xaxis.ticktext == tuple(str(i) for i in range(1, 15))
    assert figure.layout.yaxis.ticktext[1] == "2 Education…"
    cells, numbers = figure.data
    assert np.isnan(np.asarray(cells.z, float)[13]).all()  # a class without examples has no shares
    assert max(float(word) for word in numbers.text) <= 100


def test_two_short_names_stand_on_both_axes_and_long_ones_do_not() -> None:
    assert confusion_matrix(counts(), single.TWO).layout.xaxis.ticktext == single.TWO
    figure = confusion_matrix(counts(), ("entailment", "not_entailment"))
    assert figure.layout.xaxis.ticktext == ("1", "2") and figure.layout.yaxis.ticktext[1] == "2 not_entailment"


def test_marks_have_their_class_and_interval() -> None:
    rows = single.class_rows()
    figure = class_results(rows, single.TWO, "recall")
    assert [t.name for t in figure.data] == ["pre-trained", "grafted", "fine-tuned"]
    grafted = figure.data[1]
    wanted = rows[(rows["state"] == "grafted") & (rows["metric"] == "recall")]
    assert list(grafted.x) == pytest.approx(list(100 * wanted["value"]))
    assert [round(y) for y in grafted.y] == [0, 1]
    assert list(grafted.error_x.arrayminus) == pytest.approx([5, 5])
    assert figure.layout.yaxis.ticktext == ("negative<br>n = 10", "positive<br>n = 410")


def test_a_share_of_nothing_is_not_drawn_and_said() -> None:
    before = class_results(single.class_rows(), single.TWO, "precision").data[0]
    assert np.isnan(before.x[0]) and before.hovertext[0] == "negative: n/a"
