"""Tests of the calibration page's sentences on the graft and its rivals."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.core.calibration_error import calibration_error
from skillviz.core.formats import SPACE
from skillviz.core.metrics import ece
from skillviz.core.verdicts import NOT_MEASURED
from skillviz.runs.record import Estimate
from skillviz.show import measures
from skillviz.show.calibration import reliability, risk_coverage, risk_verdicts, smooth_reliability, verdicts


def test_equal_mass_is_not_measured() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 400)
    sure = 8.0 * np.eye(2)[np.where(rng.random(400) < 0.7, labels, 1 - labels)]  # 70% right, confidence 100%
    logits = {"grafted": sure / 9, "finetuned": sure}
    ((width, said),) = verdicts(logits, labels, 15, equal_mass=False)
    ((mass, also_said),) = verdicts(logits, labels, 15, equal_mass=True)
    assert width == "better" and mass == NOT_MEASURED
    assert "95%" in said and "no interval" not in said
    graft, tuned = (ece(logits[state], labels, 15, equal_mass=True) for state in ("grafted", "finetuned"))
    assert also_said.replace(SPACE, " ") == (
        f"ECE **{100 * graft:.1f}%** for the graft, **{100 * tuned:.1f}%** for the fine-tuned model: "
        f"−{100 * (tuned - graft):.1f} points (no interval)."
    )


def test_each_model_has_its_own_interval_and_the_test_of_calibration() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(0, 2, (600, 3))
    drawn = (np.exp(z).cumsum(axis=1) / np.exp(z).sum(axis=1, keepdims=True) < rng.random((600, 1))).sum(axis=1)
    logits = {"grafted": z, "finetuned": 4 * z}
    errors, p_values = measures.calibration_of(logits, drawn, 15, equal_mass=False)
    assert p_values["grafted"] > 0.05 and p_values["finetuned"] == 0.001
    bins = measures.reliability_bins(logits, drawn, 15, equal_mass=False)
    shown = reliability(bins, "light", errors=errors, p_values=p_values)
    tuned = next(str(a.text) for a in shown.figure.layout.annotations if str(a.text).startswith("fine-tuned"))
    expected = calibration_error(4 * z, drawn)
    assert f"ECE {100 * expected.debiased:.1f}" in tuned.replace(SPACE, " ") and "plug-in" in tuned
    assert f"({100 * expected.low:.1f}–{100 * expected.high:.1f})" in tuned
    assert "fine-tuned p = 0.001" in shown.reads
    few, none = measures.calibration_of({"grafted": z[:5]}, drawn[:5], 15, equal_mass=False)
    assert few["grafted"].low is None and not none


def test_of_equal_mass_the_panels_have_the_plug_in_error_alone() -> None:
    rng = np.random.default_rng(1)
    logits, labels = {"grafted": rng.normal(0, 2, (600, 3))}, rng.integers(0, 3, 600)
    errors, p_values = measures.calibration_of(logits, labels, 15, equal_mass=True)
    assert errors == {"grafted": Estimate(value=ece(logits["grafted"], labels, 15, equal_mass=True))} and not p_values
    bins = measures.reliability_bins(logits, labels, 15, equal_mass=True)
    shown = reliability(bins, "light", errors=errors, p_values=p_values)
    assert any("no interval" in str(a.text) for a in shown.figure.layout.annotations) and "p =" not in shown.reads


def states(classes: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the logits of a graft, of a model that is twice as confident and noisier, and of it scaled; and labels."""
    rng = np.random.default_rng(2)
    z = rng.normal(0, 2, (400, classes))
    drawn = (np.exp(z).cumsum(axis=1) / np.exp(z).sum(axis=1, keepdims=True) < rng.random((400, 1))).sum(axis=1)
    tuned = 2 * z + rng.normal(0, 3, z.shape)
    return {"grafted": z, "finetuned": tuned, "temperature": tuned / 2}, drawn


@pytest.mark.parametrize("classes", [2, 3])
def test_risk_by_coverage_judges_the_graft_and_temperature_has_a_curve_if_it_changes_the_order(classes: int) -> None:
    curves = measures.risk_coverage(*states(classes))
    judged, shown, area = risk_verdicts(curves), risk_coverage(curves, "light"), curves["grafted"].aurc
    assert [verdict for verdict, _ in judged] == ["better"] * (classes - 1) and ("fine-tuned" in judged[-1][1]) is (
        classes == 2
    )
    assert ("temperature" in set(shown.table["state"])) is ("keeps the order" not in shown.reads) is (classes == 3)
    ends = f"grafted: AURC {100 * area.value:.1f}% ({100 * area.low:.1f}–{100 * area.high:.1f})"
    assert ends in shown.alt.replace(SPACE, " ") and ends in str(shown.figure.data[1].name).replace(SPACE, " ")


def test_smoothed_reliability_has_both_errors_above_each_panel() -> None:
    logits, labels = states(3)
    curves, smooth = measures.smooth_reliability(logits, labels)
    for mass, ece_words in ((False, ")"), (True, "(no interval)")):
        shown = smooth_reliability(curves, smooth, "dark", *measures.calibration_of(logits, labels, 15, mass))
        of, heads = smooth["grafted"], str(shown.figure.layout.annotations).replace(SPACE, " ")
        assert f"smECE {100 * of.value:.1f}% ({100 * of.low:.1f}–{100 * of.high:.1f})<br>ECE " in heads
        assert ece_words in heads and ("p = " in shown.reads) is not mass and "smECE" in shown.alt
