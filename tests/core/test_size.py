"""Tests of sizes as people type them, of the area under a curve by size, and of the grid of mixing weights."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.interpolate import alphas
from skillviz.core.log_area import mean_over_log_size
from skillviz.core.size import parse_size
from skillviz.errors import BadInput, BadSize
from tests.core.by_hand import by_hand, near
from tests.reference import log_area as twin
from tests.refused import refused

D = 10_646_784


SIZES, VALUES = (0.001, 0.01, 1.0), (0.2, 0.6, 1.0)
TYPED = {
    "10646": 10_646, "0.1%": 10_646, "0.001": 10_646, "1e-3": 10_646, "1e-05": 106, "0.01%": 1_064, "1%": 106_467,
    "100%": D, "1.0": D, "1": 1, ".5": D // 2, " 7 ": 7, str(D): D,
}  # fmt: skip
test_by_hand = by_hand(
    *((f"size {typed}", size, parse_size, typed, D) for typed, size in TYPED.items()),
    ("0.29, with floats 28", 29, parse_size, "0.29", 100),
    ("one decade, then two", near((1 * 0.4 + 2 * 0.8) / 3), mean_over_log_size, SIZES, VALUES),
    ("a part of a curve", near(0.4), mean_over_log_size, SIZES, VALUES, 0.001, 0.01),
    ("a flat curve", near(0.3), mean_over_log_size, (10, 100), (0.3, 0.3)),
    ("eleven mixing weights", [k / 10 for k in range(11)], lambda: alphas().tolist()),
    ("two mixing weights", [0.0, 1.0], lambda: alphas(2).tolist()),
)


OUTSIDE = ("0", "0%", "0.0", "-5", "-0.1%", "1e-9", "101%", "1.01", str(D + 1), "1e99")
UNREADABLE = ("", "ten", "1,064", "0.1%%", "%", "1 000", "nan", "inf", "0x10", "1e", "٣", "1/2")
test_sizes_that_are_none_name_the_range_or_show_what_can_be_typed = refused(
    BadSize,
    *(("10,646,784", parse_size, typed, D) for typed in OUTSIDE),
    *(("0.1%", parse_size, typed, D) for typed in UNREADABLE),
)


@given(st.integers(10**4, 10**9), st.decimals("0.01", "99.99", places=2))
def test_a_share_is_cut_down_exactly_and_a_percentage_says_the_same(d: int, percent: object) -> None:
    share = Fraction(str(percent)) / 100
    assert parse_size(f"{percent}%", d) == int(share * d) == parse_size(f"0.{int(share * 10_000):04d}", d)


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


test_one_size_is_no_curve_and_a_range_lies_within_the_sizes = refused(
    BadInput,
    *(("2 to 1001", alphas, points) for points in (1, 1002)),
    ("at least 2 sizes.* has 1", mean_over_log_size, (0.01,), (0.5,)),
    ("at least 2 sizes.* has 1", mean_over_log_size, (0.01, 0.01), (0.5, 0.5)),
    ("not within the sizes scored", mean_over_log_size, (0.001, 0.01), (0.1, 0.2), 0.0001, 0.01),
)
