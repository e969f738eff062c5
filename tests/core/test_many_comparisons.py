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


def twin(p: list[float], rate: float) -> list[bool]:
    """Apply the definition: the largest k with at least k p-values at or below rate * k / n."""
    known = [one for one in p if one == one]
    best = 0.0
    for k in range(1, len(known) + 1):
        bound = rate * k / len(known)
        if sum(one <= bound for one in known) >= k:
            best = bound
    return [one == one and one <= best for one in p]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.one_of(st.floats(0, 1), st.floats(0, 0.06), st.just(float("nan"))), max_size=20), st.floats(0.01, 0.5)
)
def test_discoveries_are_those_of_the_definition(p: list[float], rate: float) -> None:
    known = [one for one in p if one == one]
    bounds = rate * np.arange(1, len(known) + 1) / max(len(known), 1)
    assume(not np.isclose(np.reshape(known, (-1, 1)), bounds, 1e-12, 0).any())  # where rounding decides
    assert discoveries(p, rate).tolist() == twin(p, rate)


def test_the_papers_example() -> None:
    """Benjamini and Hochberg (1995), section 3.2: 15 comparisons, 4 of them discoveries at 0.05."""
    p = [
        0.0001,
        0.0004,
        0.0019,
        0.0095,
        0.0201,
        0.0278,
        0.0298,
        0.0344,
        0.0459,
        0.324,
        0.4262,
        0.5719,
        0.6528,
        0.759,
        1.0,
    ]
    assert discoveries(p, 0.05).tolist() == [True] * 4 + [False] * 11


def test_p_values_agree_with_their_intervals() -> None:
    generator = np.random.default_rng(0)
    value = generator.normal(size=500)
    down, up = generator.uniform(0.1, 2, (2, 500))
    p = p_values(value, value - down, value + up)
    outside = (value - down > 0) | (value + up < 0)
    assert np.array_equal(p < 0.05, outside)
    one = p_values([1.96], [0.0], [3.92])[0]
    assert one == pytest.approx(0.05, abs=1e-4)
    assert p_values([2.0], [2.0 - NormalDist().inv_cdf(0.975)], [9.0])[0] == pytest.approx(0.0455, abs=1e-4)


def test_no_width_and_no_interval_decide_nothing() -> None:
    p = p_values([0.3, 0.3, 0.0, 0.1], [0.3, np.nan, 0.0, 0.1], [0.3, np.nan, 0.0, 0.4])
    assert p[0] == 1 and np.isnan(p[1]) and p[2] == 1 and 0 < p[3] < 1
    counts = compared([0.3, 0.3, 0.0, 0.1], [0.3, np.nan, 0.0, 0.1], [0.3, np.nan, 0.0, 0.4])
    assert (counts.n, counts.decided) == (3, 1) and counts.by_chance == pytest.approx(0.15)
    assert tuple(compared([], [], [])) == (0, 0, 0, 0)


def test_the_debiased_difference_stands_for_the_plug_in() -> None:
    value, low, high, debiased = [0.09, 0.09, 0.5], [0.01, 0.01, 0.1], [0.1, 0.1, 0.9], [0.02, np.nan, 0.5]
    p = p_values(value, low, high, debiased)
    assert p[0] == p_values([0.02], [0.01], [0.1])[0] < p[1] / 10 and p[1] == p_values([0.09], [0.01], [0.1])[0]
    assert p[2] == p_values(value, low, high)[2]
    assert compared(value, low, high, debiased).decided == 3


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9], ids=lambda share: f"correlation {share}")
def test_the_false_discovery_rate_is_held(share: float) -> None:
    """40 differences on the same examples, 30 of them zero: check the mean share of false discoveries."""
    generator, false_shares, all_null = np.random.default_rng(1), [], []
    truth = np.where(np.arange(40) < 10, 3.0, 0.0)
    for _ in range(1500):
        common = generator.normal()
        noise = np.sqrt(share) * common + np.sqrt(1 - share) * generator.normal(size=40)
        for means, rates in ((truth, false_shares), (np.zeros(40), all_null)):
            value = means + noise
            found = discoveries(p_values(value, value - 1.96, value + 1.96))
            rates.append(found[means == 0].sum() / max(found.sum(), 1))
    error = 2 * np.std(all_null) / np.sqrt(1500)
    assert np.mean(false_shares) <= RATE + 0.005 and np.mean(all_null) <= RATE + error
    assert np.mean([(np.abs(truth + generator.normal(size=40)) > 1.96)[10:].mean() for _ in range(200)]) > 0.04


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_rate_is_held_for_means_over_few_seeds(seeds: int) -> None:
    """40 differences that are all zero, each with its own seeds: check the rate of any discovery."""
    generator, found = np.random.default_rng(0), {"t": 0, "normal": 0}
    for _ in range(400):
        ends = [seeds_and_examples(x, 0.1) for x in generator.normal(size=(40, seeds))]
        value, low, high = np.array([one[:3] for one in ends]).T
        found["t"] += discoveries(p_values(value, low, high, seeds=np.full(40, seeds))).any()
        found["normal"] += discoveries(p_values(value, low, high)).any()
    assert found["t"] / 400 <= RATE + 2 * (RATE * (1 - RATE) / 400) ** 0.5
    assert found["normal"] / 400 > 4 * RATE, "the normal approximation would pass"


@pytest.mark.nightly
def test_the_rate_is_held_on_small_slices() -> None:
    """30 differences of accuracy that are all zero, with few differing predictions: check the rate of any discovery."""
    generator, n, found = np.random.default_rng(0), 60, {"mcnemar": 0, "normal": 0}
    for _ in range(600):
        differ = generator.binomial(n, 0.1, 30)
        gained = generator.binomial(differ, 0.5)
        low, high = tango(gained, differ - gained, n)
        value = (2 * gained - differ) / n
        counts = {"gained": gained, "lost": differ - gained, "examples": np.full(30, n)}
        found["mcnemar"] += discoveries(p_values(value, low, high, **counts)).any()
        found["normal"] += discoveries(p_values(value, low, high)).any()
    assert found["mcnemar"] / 600 <= RATE
    assert found["normal"] / 600 > 2 * RATE, "the normal approximation would pass"


def test_p_values_have_the_tails_of_their_intervals() -> None:
    for gained, lost, n in ((6, 0, 60), (4, 0, 300), (15, 1, 1800), (0, 6, 300), (3, 3, 60), (60, 30, 300)):
        low, high = tango(gained, lost, n)
        by_hand = math.erfc(abs(gained - lost) / math.sqrt(2 * (gained + lost)))
        counts = {"gained": [gained], "lost": [lost], "examples": [n]}
        (p,) = p_values([(gained - lost) / n], [low], [high], **counts)
        assert p == pytest.approx(by_hand, rel=1e-4) and (p < 0.05) == (low > 0 or high < 0)
    for gained, lost, n, limit in ((6, 0, 60, 0.03), (2, 9, 300, 0.03), (15, 1, 1800, -0.002), (60, 30, 300, 0.03)):
        low, high = tango(gained, lost, n)
        counts = {"gained": [gained], "lost": [lost], "examples": [n]}
        (p,) = p_values([(gained - lost) / n], [low], [high], **counts, limits=limit)
        end = tango(gained, lost, n, 1 - p)[0 if gained / n - lost / n > limit else 1]
        assert end == pytest.approx(limit, abs=1e-5) and (p < 0.05) == (low > limit or high < limit)
    three = np.array([1.0, 2.0, 4.5])
    interval = seeds_and_examples(three, 0.0)
    (p,) = p_values([interval.value], [interval.low], [interval.high], seeds=[3])
    assert p == pytest.approx(ttest_1samp(three, 0).pvalue)
    plain = p_values([0.3, 0.301], [0.1, 0.1], [0.5, 0.5])
    unknown = {"gained": [np.nan] * 2, "lost": [np.nan] * 2, "examples": [np.nan, 10]}
    assert np.array_equal(p_values([0.3, 0.301], [0.1] * 2, [0.5] * 2, seeds=[1, np.nan], **unknown), plain)
    assert p_values([0.0], [0.0], [0.0], seeds=[3])[0] == 1
    assert p_values([0.0], [0.0], [0.0], gained=[0], lost=[0], examples=[10], limits=0.03)[0] == 1, "the same model"


def test_a_rate_that_is_none() -> None:
    assert expected_by_chance(40) == pytest.approx(2)
    with pytest.raises(BadInput, match=r"the false discovery rate must lie between 0 and 1, such as 0.05; got 5"):
        discoveries([0.1], 5)


def test_the_interval_of_the_best_of_a_path_holds_where_its_own_does_not() -> None:
    """61 estimates along one path, neighbors correlated 0.98: check the coverage for the best one."""
    generator, count, repeats = np.random.default_rng(0), 61, 4000
    truth = 0.01 * np.sin(np.linspace(0, 3, count))
    steps = generator.normal(size=(repeats, count))
    noise = steps.copy()
    for i in range(1, count):
        noise[:, i] = 0.98 * noise[:, i - 1] + (1 - 0.98**2) ** 0.5 * steps[:, i]
    error = 0.015
    found = truth + error * noise
    best = found.argmax(axis=1)
    value, true = found.max(axis=1), truth[best]
    half = 1.959964 * error
    low, high = simultaneous(value.min() - half, value.min() + half, float(value.min()), count)
    wide = (high - low) / 2
    assert np.mean(np.abs(value - true) <= wide) > 0.98  # Bonferroni ignores the correlation
    assert np.mean(np.abs(value - true) <= half) < 0.93, "the plain interval would pass"


def test_of_few_predictions_that_differ_the_best_of_many_reaches_further() -> None:
    """With k differing predictions on one side, it reaches about as far as the score interval of the higher level."""
    n, many = 500, 61
    for gained in (0, 1, 3, 6, 20, 100):
        value, (low, high) = gained / n, tango(gained, 0, n)
        ends = simultaneous(low, high, value, many, examples=n)
        wanted = tango(gained, 0, n, 1 - 0.05 / many)
        plain = simultaneous(low, high, value, many)
        assert ends[1] == pytest.approx(wanted[1], rel=0.12)
        assert ends[0] <= plain[0] and ends[1] >= plain[1]
    assert simultaneous(0.0, 0.0, 0.0, many, examples=n) == (0, 0), "the same model"


def test_a_simultaneous_interval_by_hand() -> None:
    assert simultaneous(0.1, 0.4, 0.2, 1) == pytest.approx((0.1, 0.4))
    ratio = NormalDist().inv_cdf(1 - 0.05 / 4) / NormalDist().inv_cdf(0.975)
    assert simultaneous(0.1, 0.4, 0.2, 2) == pytest.approx((0.2 - 0.1 * ratio, 0.2 + 0.2 * ratio))
    assert simultaneous(0.1, 0.3, 0.9, 2) == pytest.approx((0.2 - 0.1 * ratio, 0.2 + 0.1 * ratio))
    with pytest.raises(BadInput, match="1 or more"):
        simultaneous(0, 1, 0.5, 0)
