"""Tests of many comparisons: Benjamini-Hochberg against its definition, and its error rate by simulation."""

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
from tests.core.by_hand import by_hand, near, refused

NAN = math.nan


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
    assume(
        not np.isclose(known[:, None], rate * np.arange(1, len(known) + 1) / max(len(known), 1), 1e-12, 0).any()
    )  # where rounding decides
    assert discoveries(p, rate).tolist() == twin(p, rate)


def test_p_values_agree_with_their_intervals() -> None:
    generator = np.random.default_rng(0)
    value, (down, up) = generator.normal(size=500), generator.uniform(0.1, 2, (2, 500))
    assert np.array_equal(p_values(value, value - down, value + up) < 0.05, (value - down > 0) | (value + up < 0))


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9], ids=lambda share: f"correlation {share}")
def test_the_false_discovery_rate_is_held(share: float) -> None:
    """40 differences on the same examples, 30 of them zero: check the mean share of false discoveries."""
    generator, truth, rates = np.random.default_rng(1), np.where(np.arange(40) < 10, 3.0, 0.0), []
    for _ in range(1500):
        noise = np.sqrt(share) * generator.normal() + np.sqrt(1 - share) * generator.normal(size=40)
        found = [discoveries(p_values(value, value - 1.96, value + 1.96)) for value in (truth + noise, noise)]
        rates.append([found[0][10:].sum() / max(found[0].sum(), 1), found[1].any()])
    assert (np.mean(rates, axis=0) <= [RATE + 0.005, RATE + (2 * np.std(rates, axis=0)[1] / np.sqrt(1500))]).all()
    assert np.mean([(np.abs(truth + generator.normal(size=40)) > 1.96)[10:].mean() for _ in range(200)]) > 0.04, (
        "each on its own would find more"
    )


@pytest.mark.cases(0, 2)
@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_rate_is_held_for_means_over_few_seeds(seeds: int) -> None:
    """40 differences that are all zero, each with its own seeds: check the rate of any discovery."""
    generator, found = np.random.default_rng(0), np.zeros(2)
    for _ in range(400):
        ends = np.array([seeds_and_examples(x, 0.1)[:3] for x in generator.normal(size=(40, seeds))]).T
        found += [discoveries(p_values(*ends, **more)).any() for more in ({"seeds": np.full(40, seeds)}, {})]
    student, normal = found / 400
    assert student <= RATE + 2 * (RATE * (1 - RATE) / 400) ** 0.5
    assert normal > 4 * RATE, "the normal approximation would pass"


def of_counts(gained: int, lost: int, n: int, **limits: float) -> tuple[float, float, float]:
    low, high = tango(gained, lost, n)
    return (
        p_values([(gained - lost) / n], [low], [high], gained=[gained], lost=[lost], examples=[n], **limits)[0],
        low,
        high,
    )


@pytest.mark.nightly
def test_the_rate_is_held_on_small_slices() -> None:
    """30 differences of accuracy that are all zero, with few differing predictions: check the rate of any discovery."""
    generator, n, found = np.random.default_rng(0), 60, np.zeros(2)
    for _ in range(600):
        differ = generator.binomial(n, 0.1, 30)
        gained = generator.binomial(differ, 0.5)
        interval = ((2 * gained - differ) / n, *tango(gained, differ - gained, n))
        found += [
            discoveries(p_values(*interval, **options)).any()
            for options in ({"gained": gained, "lost": differ - gained, "examples": np.full(30, n)}, {})
        ]
    mcnemar, normal = found / 600
    assert mcnemar <= RATE and normal > 2 * RATE, "the normal approximation would pass"


def test_the_interval_of_the_best_of_a_path_holds_where_its_own_does_not() -> None:
    """61 estimates along one path, neighbors correlated 0.98: check the coverage for the best one."""
    generator, count, repeats, error = np.random.default_rng(0), 61, 4000, 0.015
    truth, noise = 0.01 * np.sin(np.linspace(0, 3, count)), generator.normal(size=(repeats, count))
    for i in range(1, count):
        noise[:, i] = 0.98 * noise[:, i - 1] + (1 - 0.98**2) ** 0.5 * noise[:, i]
    found = truth + error * noise
    off, half = np.abs(found.max(axis=1) - truth[found.argmax(axis=1)]), 1.959964 * error
    least = found.max(axis=1).min()
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


SOME = ([0.3, 0.3, 0.0, 0.1], [0.3, NAN, 0.0, 0.1], [0.3, NAN, 0.0, 0.4])
WIDE = ([0.09, 0.09, 0.5], [0.01, 0.01, 0.1], [0.1, 0.1, 0.9])
TWO, THREE = ([0.3, 0.301], [0.1, 0.1], [0.5, 0.5]), np.array([1.0, 2.0, 4.5])
RATIO = NormalDist().inv_cdf(1 - 0.05 / 4) / NormalDist().inv_cdf(0.975)


def p_of(*interval: list[float], **more: object) -> list[float]:
    return p_values(*interval, **more).tolist()


test_by_hand = by_hand(
    ("Benjamini and Hochberg (1995), 3.2", [True] * 4 + [False] * 11, lambda: discoveries([
         0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.324, 0.4262, 0.5719, 0.6528, 0.759,
         1.0], 0.05).tolist()),
    ("p-values", near(0.05, 0.0455, abs=1e-4), p_of,
     [1.96, 2.0], [0.0, 2.0 - NormalDist().inv_cdf(0.975)], [3.92, 9.0]),
    *((f"the p-value of {gained} against {lost} of {n} has the tails of its interval",
       (near(math.erfc(abs(gained - lost) / math.sqrt(2 * (gained + lost))), rel=1e-4), True),
       lambda p, low, high: (p, (p < 0.05) == (low > 0 or high < 0)), *of_counts(gained, lost, n))
      for gained, lost, n in ((6, 0, 60), (4, 0, 300), (15, 1, 1800), (0, 6, 300), (3, 3, 60), (60, 30, 300))),
    *((f"and so it has against {limit}: {gained} against {lost} of {n}", (near(limit, abs=1e-5), True),
       lambda p, low, high, gained=gained, lost=lost, n=n, limit=limit: (
           tango(gained, lost, n, 1 - p)[0 if (gained - lost) / n > limit else 1],
           (p < 0.05) == (low > limit or high < limit)),
       *of_counts(gained, lost, n, limits=limit))
      for gained, lost, n, limit in ((6, 0, 60, 0.03), (2, 9, 300, 0.03), (15, 1, 1800, -0.002), (60, 30, 300, 0.03))),
    ("no width, no interval", near(1, NAN, 1), lambda: p_of(*SOME)[:3]),
    ("a width on one side", True, lambda: 0 < p_of(*SOME)[3] < 1),
    ("counts of decided ones", (3, 1, near(0.15)), lambda of: (of.n, of.decided, of.by_chance), compared(*SOME)),
    ("nothing to compare", (0, 0, 0, 0), lambda: tuple(compared([], [], []))),
    ("the debiased difference", p_of([0.02, 0.09, 0.5], *WIDE[1:]), p_of, *WIDE, [0.02, NAN, 0.5]),
    ("decided by the debiased difference", 3, lambda: compared(*WIDE, [0.02, NAN, 0.5]).decided),
    ("over seeds, the t-test", near([ttest_1samp(THREE, 0).pvalue]),
     lambda: p_of(*([end] for end in seeds_and_examples(THREE, 0.0)[:3]), seeds=[3])),
    ("of unknown counts", p_of(*TWO),
     lambda: p_of(*TWO, gained=[NAN] * 2, lost=[NAN] * 2, examples=[NAN, 10], seeds=[1, NAN])),
    *((f"the same model, {name}", [1], lambda more=more: p_of([0.0], [0.0], [0.0], **more))
      for name, more in (("seeds", {"seeds": [3]}),
                         ("counts", {"gained": [0], "lost": [0], "examples": [10], "limits": 0.03}))),
    ("the same model, the best of many", (0, 0), lambda: simultaneous(0.0, 0.0, 0.0, 61, examples=500)),
    ("the best of one", near(0.1, 0.4), simultaneous, 0.1, 0.4, 0.2, 1),
    ("the best of two", near(0.2 - 0.1 * RATIO, 0.2 + 0.2 * RATIO), simultaneous, 0.1, 0.4, 0.2, 2),
    ("a value outside", near(0.2 - 0.1 * RATIO, 0.2 + 0.1 * RATIO), simultaneous, 0.1, 0.3, 0.9, 2),
    ("expected by chance", near(2), expected_by_chance, 40),
)  # fmt: skip


test_what_is_out_of_range_is_refused = refused(
    BadInput,
    ("between 0 and 1, such as 0.05; got 5", lambda: discoveries([0.1], 5)),
    ("1 or more", lambda: simultaneous(0, 1, 0.5, 0)),
)
