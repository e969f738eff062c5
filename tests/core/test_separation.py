"""Tests of whether confidence tells right from wrong: AUROC by all pairs, risk and coverage by all orders of ties."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from skillviz.core.scores import confidence, correct, probabilities
from skillviz.core.selective import POINTS, _risks, aurc_difference, risk_coverage
from skillviz.core.separation import FEWEST, auroc, auroc_difference
from skillviz.errors import BadData
from skillviz.tasks.project import PROJECT
from tests.core.by_hand import by_hand, near
from tests.core.drawn_predictions import logits_of
from tests.reference import separation as slow
from tests.refused import refused

Z = 1.959963984540054


def test_the_lowest_coverage_that_the_docs_name_is_the_measured_one() -> None:
    rows = pd.read_csv(PROJECT / "benchmarks/results/coverage_other.csv")
    measured = rows[rows["quantity"].str.startswith("AUROC")]["coverage"]
    said = f"(lowest coverage of {len(measured)} cells: {100 * measured.min():.1f}%)"
    assert said in (PROJECT / "docs/statistics.md").read_text() and measured.min() >= 0.93


def drawn(seed: int, n: int, m: int, ties: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return two groups of confidences, the first larger on average."""
    random = np.random.default_rng(seed)
    inside, outside = random.beta(4, 1.5, n), random.beta(2, 2, m)
    return (inside.round(1), outside.round(1)) if ties else (inside, outside)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("n", "m"), [(10, 10), (37, 12), (60, 81)])
def test_value_and_ends_are_those_of_all_pairs(n: int, m: int, ties: bool) -> None:
    groups = drawn(n, n, m, ties)
    fast, value, variance = auroc(*groups), slow.auroc(*groups), slow.covariance(groups, groups)
    sd = math.sqrt(variance)
    logit, reach = math.log(value / (1 - value)), Z * sd / (value * (1 - value))
    ends = [1 / (1 + math.exp(-end)) for end in (logit - reach, logit + reach)]
    assert (fast.value, fast.low, fast.high) == pytest.approx([value, *ends], rel=1e-10)
    assert abs(sd - math.sqrt(variance / 2)) > 1e-3, "a variance of half the size would be seen"


@pytest.mark.parametrize("ties", [False, True])
def test_a_difference_takes_what_both_models_share_off(ties: bool) -> None:
    one, random = drawn(1, 50, 40, ties), np.random.default_rng(5)
    other = tuple(part + 0.1 * random.standard_normal(len(part)) for part in one)
    fast, value = auroc_difference(*one, *other), slow.auroc(*one) - slow.auroc(*other)
    unpaired = slow.covariance(one, one) + slow.covariance(other, other)
    variance = unpaired - 2 * slow.covariance(one, other)
    half = Z * math.sqrt(variance)
    assert (fast.value, fast.low, fast.high) == pytest.approx((value, value - half, value + half), rel=1e-9, abs=1e-12)
    assert unpaired > 1.5 * variance, "without the covariance it would be wider"


FAR, NEAR, NAN = np.arange(20) + 100.0, np.arange(20), math.nan
GROUPS = drawn(3, 30, 30, False)


test_by_hand = by_hand(
    *((f"AUROC {value}", value, lambda pair=pair: auroc(*pair).value) for *pair, value in
      (([3, 4], [1, 2], 1.0), ([1, 2], [3, 4], 0.0), ([1, 1], [1, 1, 1], 0.5), ([2, 4], [1, 3], 0.75))),
    ("apart", near(1, NAN, NAN), lambda: auroc(FAR, NEAR)[:3]),
    ("few", near(14.5 / 30, NAN, NAN), lambda: auroc(np.arange(FEWEST - 1), np.arange(30) - 10.0)[:3]),
    ("the same", (0, 0, 0), lambda: auroc_difference(*GROUPS, *GROUPS)[:3]),
    ("halved, in the same order", (0, 0, 0), lambda: auroc_difference(*GROUPS, *(part / 2 for part in GROUPS))[:3]),
    ("always", near(1, NAN, NAN), lambda: auroc_difference(FAR, NEAR, NEAR, FAR)[:3]),
)  # fmt: skip


test_values_that_are_none_are_refused = refused(
    BadData,
    ("at least one value", lambda: auroc([], [0.1, 0.2])),
    ("at least one value", lambda: auroc([math.nan] * 12, [0.1, 0.2])),
    ("the same examples", lambda: auroc_difference([0.1], [0.2], [0.1, 0.3], [0.2])),
)


@pytest.mark.parametrize("n", range(1, 8))
def test_risks_are_means_over_all_orders_of_ties_also_those_of_a_resample(n: int) -> None:
    random = np.random.default_rng(n)
    for times in (np.ones(n, dtype=int), *random.multinomial(n, [1 / n] * n, 4)):
        logits, labels = random.integers(0, 3, (n, 3)).astype(float), random.integers(0, 3, n)
        (found,) = _risks(logits, labels, np.arange(1, n + 1))(times[None].astype(float))
        z, y = (np.repeat(part, times, axis=0) for part in (logits, labels))
        wanted = slow.risks(list(confidence(probabilities(z))), list(~correct(z, y)))
        assert found.tolist() == pytest.approx([np.mean(wanted), *wanted], abs=1e-12)


def test_by_hand_a_tie_counts_half_and_no_error_gives_a_band_but_no_interval_of_the_area() -> None:
    found = risk_coverage(logits_of([0.9, 0.8, 0.8, 0.6]), np.array([0, 1, 0, 1]))
    assert np.allclose(found.curve[["coverage", "risk"]].T, [[0.25, 0.5, 0.75, 1], [0, 0.25, 1 / 3, 0.5]])
    assert abs(found.aurc.value - np.mean([0, 1 / 2, 1 / 3, 1 / 2])) > 0.05, "the stored order of ties would be seen"
    certain = risk_coverage(logits_of([0.9] * 20), np.zeros(20, dtype=int))
    assert certain.curve["high"].iloc[0] > 0.5 and certain.aurc.value == 0 and np.isnan(certain.aurc.low)


def test_a_difference_is_paired() -> None:
    random = np.random.default_rng(0)
    one = random.normal(0, 2, (250, 3))
    labels = np.where(random.random(250) < probabilities(one).max(1), one.argmax(1), random.integers(0, 3, 250))
    a, b = (risk_coverage(z, labels) for z in (one, one + random.normal(0, 0.8, one.shape)))
    less, apart = aurc_difference(a, b), np.hypot(*(of.aurc.high - of.aurc.low for of in (a, b)))
    assert less.low < less.value == a.aurc.value - b.aurc.value < less.high and len(a.curve) == POINTS
    assert less.high - less.low < 0.8 * apart, "without pairing it would be wider"
    assert aurc_difference(a, a)[:3] == (0, 0, 0)
