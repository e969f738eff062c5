"""Tests of methods by touched parameters: all points on one axis have values of one kind."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.show.methods import NAMED, by_touched, touched_words
from skillviz.show.sentences import metric_value
from skillviz.show.studies import scores_by_method
from tests.plots import study_frames as frames


def drawn(known: int) -> pd.DataFrame:
    """Return the methods' points, with a debiased calibration error for the first `known` of them."""
    points = frames.points()
    is_known = (points["metric"] == "ece") & (points.groupby("metric").cumcount() < known)
    return points.assign(debiased=np.where(is_known, points["value"] - 0.01, np.nan))


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize("known", [0, 3, 100])
def test_a_calibration_error_is_debiased_everywhere_or_nowhere(known: int) -> None:
    points = drawn(known)
    of_study = scores_by_method(points, "sst2", "sst2", "ece", "light")
    for shown in (by_touched(points, "ece", "sst2", {}, "light"), of_study):
        marks = [x for trace in shown.figure.data if trace.mode != "text" for x in trace.y or ()]
        rows = shown.table[shown.table["touched"] > 0]
        assert sorted(marks) == pytest.approx(sorted(rows["debiased"].fillna(rows["value"]) * 100)) and len(marks)
        assert set(rows["debiased"].notna()) == {known > 0}
        assert ("cannot be debiased, are left out" in shown.reads) == (known == 3)
        assert shown.figure.layout.yaxis.title.text == ("debiased ECE, %" if known else "ECE, %")
    (level,) = {shape.y0 for shape in of_study.figure.layout.shapes if shape.y0 == shape.y1}
    before = points.query("method == 'pretrained' and metric == 'ece'").iloc[0]
    assert level == pytest.approx(100 * before["debiased" if known else "value"])
    other = by_touched(points, "accuracy", "sst2", {}, "light")
    assert len(other.table) == (points["metric"] == "accuracy").sum() and "left out" not in other.reads


def test_the_best_methods_are_read_out_first_and_the_rest_is_counted() -> None:
    rows = frames.points()
    rows = rows[rows["metric"] == "ece"]
    best, *others = touched_words(rows, "ece").split("; ")
    lowest = rows.loc[rows["value"].idxmin()]
    assert best.startswith("best is ") and best.endswith(f" touched, {metric_value('ece', lowest['value'])}")
    assert len(rows) > NAMED and len(others) == NAMED and others[-1] == f"{len(rows) - NAMED} more in the table"
    assert touched_words(rows.iloc[:1], "ece").count(";") == 0 and touched_words(rows.iloc[:0], "ece") == ""
