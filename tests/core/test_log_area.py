"""Tests of the area under a curve by size: a slow twin, cases by hand, planted errors, and bad input."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.core.log_area import mean_over_log_size
from skillviz.errors import BadInput
from tests.reference import log_area as twin
from tests.refused import refused


@pytest.mark.parametrize("seed", range(20))
def test_the_slow_twin_gives_the_same_area(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = 10 ** np.cumsum(random.uniform(0.1, 2, random.integers(2, 7)))
    values, shuffled = random.normal(size=len(sizes)), random.permutation(len(sizes))
    inside = np.sort(np.exp(random.uniform(np.log(sizes[0]), np.log(sizes[-1]), 2)))
    wanted, found = (
        [area(sizes[order].tolist(), values[order].tolist(), *ends) for ends in (sizes[[0, -1]], inside)]
        for area, order in ((twin.mean_over_log_size, slice(None)), (mean_over_log_size, shuffled))
    )
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_a_curve_worked_by_hand_and_the_errors_that_it_catches() -> None:
    sizes, values = (0.001, 0.01, 1.0), (0.2, 0.6, 1.0)
    found = mean_over_log_size(sizes, values)
    assert found == pytest.approx((1 * 0.4 + 2 * 0.8) / 3)  # one decade, then two
    assert found != pytest.approx(np.mean(values)), "the sizes are not weighted alike"
    assert found != pytest.approx(np.trapezoid(values, sizes) / (1 - 0.001)), "the axis is not the size itself"
    assert mean_over_log_size(sizes, values, 0.001, 0.01) == pytest.approx(0.4)
    assert mean_over_log_size((10, 100), (0.3, 0.3)) == pytest.approx(0.3)


test_one_size_is_no_curve_and_a_range_lies_within_the_sizes = refused(
    BadInput,
    ("at least 2 sizes.* has 1", mean_over_log_size, (0.01,), (0.5,)),
    ("at least 2 sizes.* has 1", mean_over_log_size, (0.01, 0.01), (0.5, 0.5)),
    ("not within the sizes scored", mean_over_log_size, (0.001, 0.01), (0.1, 0.2), 0.0001, 0.01),
)
