"""Tests of sizes as people type them and of numbers as they are shown to a reader, of the area under a curve by size,
and of the grid of mixing weights."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core import formats
from skillviz.core.interpolate import alphas
from skillviz.core.log_area import mean_over_log_size
from skillviz.core.size import parse_size
from skillviz.errors import BadInput, BadSize
from tests.core.by_hand import by_hand, near, refused
from tests.reference import log_area as twin

D = 10_646_784


SIZES, VALUES = (0.001, 0.01, 1.0), (0.2, 0.6, 1.0)


test_sizes_that_are_none_name_the_range_or_show_what_can_be_typed = refused(
    BadSize,
    *(
        ("10,646,784", parse_size, typed, D)
        for typed in ("0", "0%", "0.0", "-5", "-0.1%", "1e-9", "101%", "1.01", str(D + 1), "1e99")
    ),
    *(
        ("0.1%", parse_size, typed, D)
        for typed in ("", "ten", "1,064", "0.1%%", "%", "1 000", "nan", "inf", "0x10", "1e", "٣", "1/2")
    ),
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


NB = formats.SPACE
SHOWN = [
    (formats.percent, (0.801, 0.0, 1.0, -0.029, None), ("80.1%", "0.0%", "100.0%", "−2.9%", "n/a")),
    (
        formats.share,
        (0.001, 0.0001, 10_646 / 10_646_784, 1_064 / 10_646_784, 0.125, 1.0, 0.0123, 0.00034, 0.0),
        ("0.1%", "0.01%", "0.1%", "0.01%", "12.5%", "100.0%", "1.2%", "0.034%", "0.0%"),
    ),
    (formats.count, (10_646_784,), ("10,646,784",)),
    (formats.number, ((-1234.5, 1), (-0.0001, 2)), ("−1,234.5", "0.00")),  # a rounded zero has no sign
    (formats.points, (0.029, -0.029, 0.0001), ("+2.9 points", "−2.9 points", "0.0 points")),
    (formats.signed, ((0.26, 1), (-0.26, 1), (0.01, 1), (None, 1)), ("+0.3", "−0.3", "0.0", "n/a")),
    (
        formats.percent_interval,
        ((0.774, 0.826), (-0.051, -0.008), (-0.1, 0.1, 0), (None, 0.1), (0.1, np.nan)),
        ("77.4–82.6", "−5.1 to −0.8", "−10 to 10", "no interval", "no interval"),
    ),
    (
        formats.estimate,
        ((-0.0021, -0.00423, -0.00031), (0.5, None, None), (0.5, np.nan, 0.6), (None, 0, 1)),
        ("−0.0021 (−0.0042 to −0.0003)", "0.500", "0.500", "n/a"),
    ),
    (
        formats.percent_estimate,
        ((0.02, 0.0004, 0.05), (0.825, 0.793, 0.853), (-0.05, -0.065, 0.01)),
        ("2.00 (0.04–5.00)", "82.5 (79.3–85.3)", "−5.0 (−6.5 to 1.0)"),
    ),
    (
        formats.seconds,
        (4.21, 200, 7500, 59.96),
        (f"4.2{NB}s", f"3{NB}min 20{NB}s", f"2{NB}h 5{NB}min", f"60.0{NB}s"),
    ),
    (formats.rough_seconds, (0.2, 5, 600, 9000), ("1 s", "5 s", "10 min", "2.5 h")),
    (
        formats.time_left,
        (None, 240.0, 0.0),
        ("time left: not measured yet", "about 4 min left", "longer than measured so far"),
    ),
    (formats.byte_size, (2**11, 87 * 2**20, 2**31), ("2 KiB", "87 MiB", "2.0 GiB")),
    (
        formats.day,
        ("2026-11-20T14:05:33+00:00", "2026-11-20T14:05:33+02:00", None, "yesterday"),
        ("20 Nov 2026, 14:05 UTC", "20 Nov 2026, 12:05 UTC", "n/a", "yesterday"),
    ),
    (
        formats.counted,
        ((0, "run"), (1, "run"), (1821, "run"), (2, "entry")),
        ("0 runs", "1 run", "1,821 runs", "2 entries"),
    ),
    (formats.listed, (["a"], ["a", "b"], ["a", "b", "c", "d"]), ("a", "a and b", "a, b and 2 more")),
]
"""Formats, what they are given, and what they show."""
test_by_hand = by_hand(
    *((f"{show.__name__} {text}", text, show, *(one if isinstance(one, tuple) else (one,)))
      for show, given, shown in SHOWN for one, text in zip(given, shown, strict=True)),
    # An interval shows zero only where it holds it.
    *((f"interval {shown}", shown, formats.interval, low, high, digits) for low, high, digits, shown in (
      (0.412, 0.45, 2, "0.41–0.45"),
      (-0.00423, -0.00031, 3, "−0.0042 to −0.0003"), (-0.004, -0.00002, 3, "−0.00400 to −0.00002"),
      (0.0004, 0.0312, 2, "0.0004–0.0312"), (0.04, 3.21, 1, "0.04–3.21"), (-0.3, -0.2, 0, "−0.3 to −0.2"),
      (-0.0004, 0.004, 3, "0.000 to 0.004"), (0.0, 0.004, 3, "0.000–0.004"), (-0.004, 0.0, 3, "−0.004 to 0.000"),
      (1e-17, 0.1, 2, "0.00–0.10"),
      )),
    *((f"no number is made up: {show.__name__} of {value}", "n/a", show, value)
      for show in (formats.percent, formats.number, formats.points, formats.share, formats.seconds)
      for value in (None, np.nan, np.inf)),
    ("of a damaged record: Home and the lists must open", "0.1%", lambda: formats.share(-0.001)[-4:]),
    ("a table", ["| --- | --- |", "| 1 | x\\|y |"], lambda: formats.markdown_table(("a", "b"), [("1", "x|y")])[1:]),
    ("an empty table", ["No row."], formats.markdown_table, ("a",), []),
    *((f"size {typed}", size, parse_size, typed, D) for typed, size in {
      "10646": 10_646, "0.1%": 10_646, "0.001": 10_646, "1e-3": 10_646, "1e-05": 106, "0.01%": 1_064, "1%": 106_467,
      "100%": D, "1.0": D, "1": 1, ".5": D // 2, " 7 ": 7, str(D): D,
      }.items()),
    ("0.29, with floats 28", 29, parse_size, "0.29", 100),
    ("one decade, then two", near((1 * 0.4 + 2 * 0.8) / 3), mean_over_log_size, SIZES, VALUES),
    ("a part of a curve", near(0.4), mean_over_log_size, SIZES, VALUES, 0.001, 0.01),
    ("a flat curve", near(0.3), mean_over_log_size, (10, 100), (0.3, 0.3)),
    ("eleven mixing weights", [k / 10 for k in range(11)], lambda: alphas().tolist()),
    ("two mixing weights", [0.0, 1.0], lambda: alphas(2).tolist()),
)  # fmt: skip
