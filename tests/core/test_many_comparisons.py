"""Tests of many comparisons: Benjamini-Hochberg against its definition, and its error rate by simulation."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from skillviz.core.intervals import tango
from skillviz.core.many_comparisons import RATE, compared, discoveries, expected_by_chance, p_values, simultaneous
from skillviz.core.seeds_interval import seeds_and_examples
from skillviz.errors import BadInput
from tests.refused import refused


def twin(p: list[float], rate: float) -> list[bool]:
    """Apply the definition: the largest k with at least k p-values at or below rate * k / n."""
    known = [one for one in p if one == one]
    bounds = [rate * k / len(known) for k in range(1, len(known) + 1)]
    reached = [bound for k, bound in enumerate(bounds, 1) if sum(one <= bound for one in known) >= k]
    return [one == one and one <= max(reached, default=0.0) for one in p]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.one_of(st.floats(0, 1), st.floats(0, 0.06), st.just(float("nan"))), max_size=20), st.floats(0.01, 0.5)
)
def test_discoveries_are_those_of_the_definition(p: list[float], rate: float) -> None:
    known = np.array([one for one in p if one == one])
    bounds = rate * np.arange(1, len(known) + 1) / max(len(known), 1)
    assume(not np.isclose(known[:, None], bounds, 1e-12, 0).any())  # where rounding decides
    assert discoveries(p, rate).tolist() == twin(p, rate)


def test_the_papers_example() -> None:
    """Benjamini and Hochberg (1995), section 3.2: 15 comparisons, 4 of them discoveries at 0.05."""
    p = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
        0.0459, 0.324, 0.4262, 0.5719, 0.6528, 0.759, 1.0,
    ]  # fmt: skip
    assert discoveries(p, 0.05).tolist() == [True] * 4 + [False] * 11


def test_p_values_agree_with_their_intervals() -> None:
    generator = np.random.default_rng(0)
    value, (down, up) = generator.normal(size=500), generator.uniform(0.1, 2, (2, 500))
    outside = (value - down > 0) | (value + up < 0)
    assert np.array_equal(p_values(value, value - down, value + up) < 0.05, outside)
    by_hand = p_values([1.96, 2.0], [0.0, 2.0 - NormalDist().inv_cdf(0.975)], [3.92, 9.0])
    assert by_hand == pytest.approx([0.05, 0.0455], abs=1e-4)


def test_no_width_and_no_interval_decide_nothing() -> None:
    differences = ([0.3, 0.3, 0.0, 0.1], [0.3, np.nan, 0.0, 0.1], [0.3, np.nan, 0.0, 0.4])
    p, counts = p_values(*differences), compared(*differences)
    assert p[[0, 2]].tolist() == [1, 1] and np.isnan(p[1]) and 0 < p[3] < 1
    assert (counts.n, counts.decided, counts.by_chance) == (3, 1, pytest.approx(0.15))
    assert tuple(compared([], [], [])) == (0, 0, 0, 0)


def test_the_debiased_difference_stands_for_the_plug_in() -> None:
    value, low, high, debiased = [0.09, 0.09, 0.5], [0.01, 0.01, 0.1], [0.1, 0.1, 0.9], [0.02, np.nan, 0.5]
    p = p_values(value, low, high, debiased)
    assert p.tolist() == p_values([0.02, 0.09, 0.5], low, high).tolist() and p[0] < p[1] / 10
    assert compared(value, low, high, debiased).decided == 3


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9], ids=lambda share: f"correlation {share}")
def test_the_false_discovery_rate_is_held(share: float) -> None:
    """40 differences on the same examples, 30 of them zero: check the mean share of false discoveries."""
    generator, truth, rates = np.random.default_rng(1), np.where(np.arange(40) < 10, 3.0, 0.0), []
    for _ in range(1500):
        noise = np.sqrt(share) * generator.normal() + np.sqrt(1 - share) * generator.normal(size=40)
        values = (truth + noise, noise)
        found = [discoveries(p_values(value, value - 1.96, value + 1.96)) for value in values]
        rates.append([found[0][10:].sum() / max(found[0].sum(), 1), found[1].any()])
    error = 2 * np.std(rates, axis=0)[1] / np.sqrt(1500)
    assert (np.mean(rates, axis=0) <= [RATE + 0.005, RATE + error]).all()
    plain = [(np.abs(truth + generator.normal(size=40)) > 1.96)[10:].mean() for _ in range(200)]
    assert np.mean(plain) > 0.04, "each on its own would find more"


@pytest.mark.cases(0, 2)
@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_rate_is_held_for_means_over_few_seeds(seeds: int) -> None:
    """40 differences that are all zero, each with its own seeds: check the rate of any discovery."""
    generator, found = np.random.default_rng(0), np.zeros(2)
    for _ in range(400):
        ends = [seeds_and_examples(x, 0.1)[:3] for x in generator.normal(size=(40, seeds))]
        options = ({"seeds": np.full(40, seeds)}, {})
        found += [discoveries(p_values(*np.array(ends).T, **more)).any() for more in options]
    student, normal = found / 400
    assert student <= RATE + 2 * (RATE * (1 - RATE) / 400) ** 0.5
    assert normal > 4 * RATE, "the normal approximation would pass"


def of_counts(gained: int, lost: int, n: int, **limits: float) -> tuple[float, float, float]:
    """Return the p-value of a difference of predictions, and the ends of its score interval."""
    low, high = tango(gained, lost, n)
    counts = {"gained": [gained], "lost": [lost], "examples": [n]}
    return p_values([(gained - lost) / n], [low], [high], **counts, **limits)[0], low, high


@pytest.mark.nightly
def test_the_rate_is_held_on_small_slices() -> None:
    """30 differences of accuracy that are all zero, with few differing predictions: check the rate of any discovery."""
    generator, n, found = np.random.default_rng(0), 60, np.zeros(2)
    for _ in range(600):
        differ = generator.binomial(n, 0.1, 30)
        gained = generator.binomial(differ, 0.5)
        interval = ((2 * gained - differ) / n, *tango(gained, differ - gained, n))
        counts = {"gained": gained, "lost": differ - gained, "examples": np.full(30, n)}
        found += [discoveries(p_values(*interval, **options)).any() for options in (counts, {})]
    mcnemar, normal = found / 600
    assert mcnemar <= RATE and normal > 2 * RATE, "the normal approximation would pass"


@pytest.mark.parametrize(
    ("gained", "lost", "n"), [(6, 0, 60), (4, 0, 300), (15, 1, 1800), (0, 6, 300), (3, 3, 60), (60, 30, 300)]
)
def test_p_values_of_counts_have_the_tails_of_their_intervals(gained: int, lost: int, n: int) -> None:
    p, low, high = of_counts(gained, lost, n)
    by_hand = math.erfc(abs(gained - lost) / math.sqrt(2 * (gained + lost)))
    assert p == pytest.approx(by_hand, rel=1e-4) and (p < 0.05) == (low > 0 or high < 0)


@pytest.mark.parametrize(
    ("gained", "lost", "n", "limit"),
    [(6, 0, 60, 0.03), (2, 9, 300, 0.03), (15, 1, 1800, -0.002), (60, 30, 300, 0.03)],
)
def test_p_values_against_a_limit_have_the_tails_of_their_intervals(
    gained: int, lost: int, n: int, limit: float
) -> None:
    p, low, high = of_counts(gained, lost, n, limits=limit)
    end = tango(gained, lost, n, 1 - p)[0 if (gained - lost) / n > limit else 1]
    assert end == pytest.approx(limit, abs=1e-5) and (p < 0.05) == (low > limit or high < limit)


def test_p_values_over_seeds_are_those_of_the_t_test() -> None:
    three = np.array([1.0, 2.0, 4.5])
    interval = seeds_and_examples(three, 0.0)
    (p,) = p_values([interval.value], [interval.low], [interval.high], seeds=[3])
    assert p == pytest.approx(ttest_1samp(three, 0).pvalue)
    two, nan = ([0.3, 0.301], [0.1, 0.1], [0.5, 0.5]), np.nan
    unknown = {"gained": [nan] * 2, "lost": [nan] * 2, "examples": [nan, 10], "seeds": [1, nan]}
    assert np.array_equal(p_values(*two, **unknown), p_values(*two))
    for same in ({"seeds": [3]}, {"gained": [0], "lost": [0], "examples": [10], "limits": 0.03}):
        assert p_values([0.0], [0.0], [0.0], **same)[0] == 1, "the same model"


def test_the_interval_of_the_best_of_a_path_holds_where_its_own_does_not() -> None:
    """61 estimates along one path, neighbors correlated 0.98: check the coverage for the best one."""
    generator, count, repeats, error = np.random.default_rng(0), 61, 4000, 0.015
    truth, noise = 0.01 * np.sin(np.linspace(0, 3, count)), generator.normal(size=(repeats, count))
    for i in range(1, count):
        noise[:, i] = 0.98 * noise[:, i - 1] + (1 - 0.98**2) ** 0.5 * noise[:, i]
    found = truth + error * noise
    off, least, half = (
        np.abs(found.max(axis=1) - truth[found.argmax(axis=1)]),
        found.max(axis=1).min(),
        1.959964 * error,
    )
    low, high = simultaneous(least - half, least + half, float(least), count)
    assert np.mean(off <= (high - low) / 2) > 0.98  # Bonferroni ignores the correlation
    assert np.mean(off <= half) < 0.93, "the plain interval would pass"


@pytest.mark.parametrize("gained", [0, 1, 3, 6, 20, 100])
def test_of_few_predictions_that_differ_the_best_of_many_reaches_further(gained: int) -> None:
    """With k differing predictions on one side, it reaches about as far as the score interval of the higher level."""
    n, many = 500, 61
    interval = (*tango(gained, 0, n), gained / n)
    ends, plain = (simultaneous(*interval, many, **counts) for counts in ({"examples": n}, {}))
    assert ends[1] == pytest.approx(tango(gained, 0, n, 1 - 0.05 / many)[1], rel=0.12)
    assert ends[0] <= plain[0] and ends[1] >= plain[1]
    assert simultaneous(0.0, 0.0, 0.0, many, examples=n) == (0, 0), "the same model"


def test_simultaneous_intervals_and_chance_by_hand() -> None:
    ratio = NormalDist().inv_cdf(1 - 0.05 / 4) / NormalDist().inv_cdf(0.975)
    assert simultaneous(0.1, 0.4, 0.2, 1) == pytest.approx((0.1, 0.4))
    assert simultaneous(0.1, 0.4, 0.2, 2) == pytest.approx((0.2 - 0.1 * ratio, 0.2 + 0.2 * ratio))
    assert simultaneous(0.1, 0.3, 0.9, 2) == pytest.approx((0.2 - 0.1 * ratio, 0.2 + 0.1 * ratio))
    assert expected_by_chance(40) == pytest.approx(2)


test_what_is_out_of_range_is_refused = refused(
    BadInput,
    ("between 0 and 1, such as 0.05; got 5", lambda: discoveries([0.1], 5)),
    ("1 or more", lambda: simultaneous(0, 1, 0.5, 0)),
)
