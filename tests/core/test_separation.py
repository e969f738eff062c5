"""Tests of AUROC by ranks against all pairs, of its variance against DeLong's sums, and of its undefined cases."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from skillviz.core.separation import FEWEST, auroc, auroc_difference
from skillviz.errors import BadData
from skillviz.tasks.project import PROJECT
from tests.reference import separation as slow

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
    inside, outside = drawn(n, n, m, ties)
    fast, value = auroc(inside, outside), slow.auroc(inside, outside)
    sd = math.sqrt(slow.covariance((inside, outside), (inside, outside)))
    assert fast.value == pytest.approx(value, rel=1e-12)
    logit, reach = math.log(value / (1 - value)), Z * sd / (value * (1 - value))
    ends = [1 / (1 + math.exp(-end)) for end in (logit - reach, logit + reach)]
    assert (fast.low, fast.high) == pytest.approx(ends, rel=1e-10)
    without_one_group = math.sqrt(slow.covariance((inside, outside), (inside, outside)) / 2)
    assert abs(sd - without_one_group) > 1e-3, "a variance of half the size would be seen"


@pytest.mark.parametrize("ties", [False, True])
def test_a_difference_takes_what_both_models_share_off(ties: bool) -> None:
    one, other = drawn(1, 50, 40, ties), drawn(1, 50, 40, ties)
    random = np.random.default_rng(5)
    other = tuple(part + 0.1 * random.standard_normal(len(part)) for part in other)
    fast = auroc_difference(*one, *other)
    var = slow.covariance(one, one) + slow.covariance(other, other) - 2 * slow.covariance(one, other)
    assert fast.value == pytest.approx(slow.auroc(*one) - slow.auroc(*other), abs=1e-12)
    assert fast.high - fast.value == pytest.approx(Z * math.sqrt(var), rel=1e-9)
    assert fast.value - fast.low == pytest.approx(Z * math.sqrt(var), rel=1e-9)
    unpaired = slow.covariance(one, one) + slow.covariance(other, other)
    assert unpaired > 1.5 * var, "without the covariance it would be wider"


def test_analytic_cases() -> None:
    assert auroc([3, 4], [1, 2]).value == 1.0
    assert auroc([1, 2], [3, 4]).value == 0.0
    assert auroc([1, 1], [1, 1, 1]).value == 0.5
    assert auroc([2, 4], [1, 3]).value == 0.75


def test_no_interval_where_nothing_is_known_of_the_variance() -> None:
    apart = auroc(np.arange(20) + 100.0, np.arange(20))
    assert apart.value == 1.0 and math.isnan(apart.low) and math.isnan(apart.high)
    few = auroc(np.arange(FEWEST - 1), np.arange(30) - 10.0)
    assert math.isnan(few.low) and not math.isnan(few.value)
    inside, outside = drawn(3, 30, 30, False)
    assert auroc_difference(inside, outside, inside, outside)[:3] == (0, 0, 0)
    halved = auroc_difference(inside, outside, inside / 2, outside / 2)
    assert (halved.low, halved.high) == (0, 0), "the order of the examples is the same"
    always = auroc_difference(np.arange(20) + 100.0, np.arange(20), np.arange(20), np.arange(20) + 100.0)
    assert always.value == 1.0 and math.isnan(always.low)


@pytest.mark.parametrize("inside", [[], [math.nan] * 12])
def test_values_that_are_none_are_refused(inside: list[float]) -> None:
    with pytest.raises(BadData, match="at least one value"):
        auroc(inside, [0.1, 0.2])
    with pytest.raises(BadData, match="the same examples"):
        auroc_difference([0.1], [0.2], [0.1, 0.3], [0.2])
