"""Tests of the interval over few seeds and one test set: exact ends, coverage, and bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm, t

from skillviz.core.intervals import seeds_interval
from skillviz.core.seeds_interval import mean_of_intervals, seeds_and_examples
from skillviz.errors import BadData, BadInput
from tests.refused import refused


def test_its_ends_are_those_of_its_parts() -> None:
    values, normal = [0.8, 0.82, 0.87], norm.ppf(0.975)
    assert seeds_and_examples(values, 0.0)[:5] == pytest.approx(seeds_interval(values)), (
        "no examples' part: Student's t"
    )
    same, one, two = (seeds_and_examples(*of) for of in (([0.8] * 3, 0.01), ([0.8], 0.01), ([0.8, 0.9], 0.02)))
    for found in (same, one):
        assert (found.low, found.high) == pytest.approx((0.8 - normal * 0.01, 0.8 + normal * 0.01))
    assert (one.value, one.n) == (0.8, 1) and math.isnan(one.sd)
    assert two.high - two.value == pytest.approx(math.hypot(t.ppf(0.975, 1) * 0.05, normal * 0.02))


def test_it_is_the_formula() -> None:
    values, sd = [0.1, 0.4, 0.3, 0.2], 0.05
    seeds, found = np.var(values, ddof=1) / 4, seeds_and_examples(values, sd)
    freedom = (seeds + sd**2) ** 2 / (seeds**2 / 3)
    half = t.ppf(0.975, 3 + (freedom - 3) / 8) * math.sqrt(seeds + sd**2)
    assert (found.low, found.high) == pytest.approx((0.25 - half, 0.25 + half))


@pytest.mark.nightly
@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0, 30.0])
def test_it_covers(seeds: int, spread: float) -> None:
    """Normal seeds and examples; half of the examples' noise is separate for each seed. 4,000 draws: 0.4% of error."""
    random, own = np.random.default_rng(3), 0.5 * seeds
    luck = random.normal(size=(4000, seeds)) * math.sqrt(spread * seeds + own)
    luck += random.normal(size=(4000, 1)) * 0.5**0.5
    found = [seeds_and_examples(x, 1.0) for x in luck]
    assert 0.935 <= np.mean([abs(one.value) <= one.high - one.value for one in found]) <= 0.995
    plain = np.mean([abs(x.mean()) <= 1.96 for x in luck])
    assert spread < 1 or plain < 0.9, "without the seeds' part it would not"


def test_intervals_of_single_seeds_join() -> None:
    values = np.array([0.02, 0.03, 0.04])
    found = mean_of_intervals(values, values - [0.02, 0.02, 0.02], values + [0.03, 0.04, 0.05])
    down, up = (seeds_and_examples(values, reach / norm.ppf(0.975)) for reach in (0.02, 0.04))
    assert (found.value, found.low, found.high) == pytest.approx((0.03, down.low, up.high))
    assert found.low < 0.01 and found.high > 0.07, "at least as wide as the seeds' own"
    for one in ((0.02, 0.0, 0.05), (0.5, 0.1, 0.6)):
        assert mean_of_intervals(*([end] for end in one))[:3] == pytest.approx(one)


NAN = math.nan
UNUSABLE = (([], 0.1), ([0.1, NAN], 0.1), ([0.1], -1.0), ([0.1], NAN))
test_what_cannot_be_used_is_refused = refused(BadData, *((None, seeds_and_examples, *one) for one in UNUSABLE))
test_bad_ends_are_refused = refused(
    BadInput,
    ("0.95; got 95", lambda: seeds_and_examples([0.1, 0.2], 0.1, level=95)),
    ("both ends", mean_of_intervals, [0.1], [0.0], [0.2, 0.3]),
)


def test_two_sets_of_seeds_that_do_not_belong_together_each_count_by_their_spread() -> None:
    a, b = np.array([0.80, 0.83, 0.86]), np.array([0.70, 0.75, 0.71, 0.72])
    less, parts = (
        np.subtract.outer(a, b),
        [t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / math.sqrt(len(x)) for x in (a, b)],
    )
    found, joined = seeds_and_examples(less, 0.01), mean_of_intervals(less, less - 0.02, less + 0.01)
    value, half = a.mean() - b.mean(), math.hypot(*parts, 1.959964 * 0.01)
    ends = (value, value - half, value + half, 4)
    assert (found.value, found.low, found.high, found.n) == pytest.approx(ends, rel=1e-5)
    assert joined.value - joined.low == pytest.approx(math.hypot(*parts, 0.02), rel=1e-5)
    one, fixed = seeds_and_examples(less[:, :1], 0.01), seeds_and_examples(a - b[0], 0.01)
    assert one[1:3] == pytest.approx(fixed[1:3]), "one seed alone is held fixed"
