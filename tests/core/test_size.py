"""Tests of sizes as people type them: exact counts, exact shares, and errors that give the range."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.size import parse_size
from skillviz.errors import BadSize
from tests.refused import refused

D = 10_646_784


@pytest.mark.parametrize(
    ("typed", "size"),
    [
        ("10646", 10_646),
        ("0.1%", 10_646),
        ("0.001", 10_646),
        ("1e-3", 10_646),
        ("1e-05", 106),
        ("0.01%", 1_064),
        ("1%", 106_467),
        ("100%", D),
        ("1.0", D),
        ("1", 1),
        (".5", D // 2),
        (" 7 ", 7),
        (str(D), D),
    ],
)
def test_sizes_as_typed(typed: str, size: int) -> None:
    assert parse_size(typed, D) == size


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
    size = parse_size(f"{percent}%", d)
    assert size == int(share * d) == parse_size(f"0.{int(share * 10_000):04d}", d)


def test_a_share_never_suffers_from_binary_fractions() -> None:
    assert parse_size("0.29", 100) == 29 != int(0.29 * 100)  # 28 with floats
