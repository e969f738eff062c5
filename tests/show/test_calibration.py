"""Tests of the calibration page's sentences on the graft and its rivals."""

import numpy as np
import pytest

from skillviz.core.calibration_error import calibration_error
from skillviz.core.metrics import ece
from skillviz.core.verdicts import NOT_MEASURED
from skillviz.runs.record import Estimate
from skillviz.show import measures
from skillviz.show.calibration import reliability, risk_coverage, risk_verdicts, smooth_reliability, verdicts
from tests.tables import check, plain


def test_equal_mass_is_not_measured() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 400)
    sure = 8.0 * np.eye(2)[np.where(rng.random(400) < 0.7, labels, 1 - labels)]  # 70% right, confidence 100%
    logits = {"grafted": sure / 9, "finetuned": sure}
    ((width, said),), ((mass, also_said),) = (
        verdicts(logits, labels, 15, equal_mass=of_mass) for of_mass in (False, True)
    )
    graft, tuned = (ece(logits[state], labels, 15, equal_mass=True) for state in ("grafted", "finetuned"))
    assert (width, mass) == ("better", NOT_MEASURED)
    check(said, ("95%",), ("no interval",))
    check(also_said, (
        f"^ECE **{100 * graft:.1f}%** for the graft, **{100 * tuned:.1f}%** for the fine-tuned model: "
        f"−{100 * (tuned - graft):.1f} points (no interval).$",
    ))  # fmt: skip


def drawn_from(rng: np.random.Generator, z: np.ndarray) -> np.ndarray:
    """Return labels drawn from the probabilities of these logits."""
    return ((np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)).cumsum(axis=1) < rng.random((len(z), 1))).sum(axis=1)


def shown_of(logits: dict[str, np.ndarray], labels: np.ndarray, equal_mass: bool) -> tuple[dict, dict, str, str]:
    """Return the errors, the p-values, the panels' titles and what is read from them."""
    errors, p_values = measures.calibration_of(logits, labels, 15, equal_mass=equal_mass)
    bins = measures.reliability_bins(logits, labels, 15, equal_mass=equal_mass)
    shown = reliability(bins, "light", errors=errors, p_values=p_values)
    return errors, p_values, " | ".join(str(a.text) for a in shown.figure.layout.annotations), shown.reads


def test_each_model_has_its_own_interval_and_the_test_of_calibration() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(0, 2, (600, 3))
    labels = drawn_from(rng, z)
    _, p_values, titles, reads = shown_of({"grafted": z, "finetuned": 4 * z}, labels, equal_mass=False)
    assert p_values["grafted"] > 0.05 and p_values["finetuned"] == 0.001 and "fine-tuned p = 0.001" in reads
    expected = calibration_error(4 * z, labels)
    check(titles.partition("fine-tuned")[2], (
        f"ECE {100 * expected.debiased:.1f}", "plug-in", f"({100 * expected.low:.1f}–{100 * expected.high:.1f})",
    ))  # fmt: skip
    few, none = measures.calibration_of({"grafted": z[:5]}, labels[:5], 15, equal_mass=False)
    assert few["grafted"].low is None and not none


def test_of_equal_mass_the_panels_have_the_plug_in_error_alone() -> None:
    rng = np.random.default_rng(1)
    logits, labels = {"grafted": rng.normal(0, 2, (600, 3))}, rng.integers(0, 3, 600)
    errors, p_values, titles, reads = shown_of(logits, labels, equal_mass=True)
    assert errors == {"grafted": Estimate(value=ece(logits["grafted"], labels, 15, equal_mass=True))}
    assert ("no interval" in titles, "p =" in reads, p_values) == (True, False, {})


def states(classes: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the logits of a graft, of a model that is twice as confident and noisier, and of it scaled; and labels."""
    rng = np.random.default_rng(2)
    z = rng.normal(0, 2, (400, classes))
    labels = drawn_from(rng, z)
    tuned = 2 * z + rng.normal(0, 3, z.shape)
    return {"grafted": z, "finetuned": tuned, "temperature": tuned / 2}, labels


@pytest.mark.parametrize("classes", [2, 3])
def test_risk_by_coverage_judges_the_graft_and_temperature_has_a_curve_if_it_changes_the_order(classes: int) -> None:
    curves = measures.risk_coverage(*states(classes))
    judged, shown, area = risk_verdicts(curves), risk_coverage(curves, "light"), curves["grafted"].aurc
    assert [verdict for verdict, _ in judged] == ["better"] * (classes - 1)
    assert ("fine-tuned" in judged[-1][1]) is (classes == 2)
    assert ("temperature" in set(shown.table["state"])) is ("keeps the order" not in shown.reads) is (classes == 3)
    ends = f"grafted: AURC {100 * area.value:.1f}% ({100 * area.low:.1f}–{100 * area.high:.1f})"
    assert [ends in plain(str(text)) for text in (shown.alt, shown.figure.data[1].name)] == [True, True]


@pytest.mark.parametrize(("mass", "ece_words"), [(False, ")"), (True, "(no<br>interval)")])
def test_smoothed_reliability_has_both_errors_above_each_panel(mass: bool, ece_words: str) -> None:
    logits, labels = states(3)
    curves, smooth = measures.smooth_reliability(logits, labels)
    shown = smooth_reliability(curves, smooth, "dark", *measures.calibration_of(logits, labels, 15, mass))
    of = smooth["grafted"]
    error = f"smECE {100 * of.value:.1f}%<br>({100 * of.low:.1f}–{100 * of.high:.1f})<br>ECE "
    check(str(shown.figure.layout.annotations), (error, ece_words))
    assert ("p = " in shown.reads) is not mass and "smECE" in shown.alt
