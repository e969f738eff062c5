"""Tests of AUROC by ranks against all pairs, of its variance against DeLong's sums, and of its undefined cases."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from skillviz.core.separation import FEWEST, auroc, auroc_difference
from skillviz.errors import BadData
from skillviz.tasks.project import PROJECT
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


@pytest.mark.parametrize(
    ("inside", "outside", "value"),
    [([3, 4], [1, 2], 1.0), ([1, 2], [3, 4], 0.0), ([1, 1], [1, 1, 1], 0.5), ([2, 4], [1, 3], 0.75)],
)
def test_analytic_cases(inside: list[int], outside: list[int], value: float) -> None:
    assert auroc(inside, outside).value == value


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (lambda: auroc(FAR, NEAR), (1, NAN, NAN)),
        (lambda: auroc(np.arange(FEWEST - 1), np.arange(30) - 10.0), (14.5 / 30, NAN, NAN)),
        (lambda: auroc_difference(*GROUPS, *GROUPS), (0, 0, 0)),
        (lambda: auroc_difference(*GROUPS, *(part / 2 for part in GROUPS)), (0, 0, 0)),  # the order is the same
        (lambda: auroc_difference(FAR, NEAR, NEAR, FAR), (1, NAN, NAN)),
    ],
    ids=["apart", "few", "the same", "halved", "always"],
)
def test_no_interval_where_nothing_is_known_of_the_variance(found: Callable[[], tuple], wanted: tuple) -> None:
    assert found()[:3] == pytest.approx(wanted, nan_ok=True)


test_values_that_are_none_are_refused = refused(
    BadData,
    ("at least one value", lambda: auroc([], [0.1, 0.2])),
    ("at least one value", lambda: auroc([math.nan] * 12, [0.1, 0.2])),
    ("the same examples", lambda: auroc_difference([0.1], [0.2], [0.1, 0.3], [0.2])),
)
