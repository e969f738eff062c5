"""Tests of numbers as they are shown to a reader."""

from __future__ import annotations

import math

import pytest

from skillviz.core import formats

NB = formats.SPACE


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.801, "80.1%"), (0.0, "0.0%"), (1.0, "100.0%"), (-0.029, "−2.9%"), (None, "n/a")],
)
def test_percents_have_one_decimal_and_no_space(value: float | None, shown: str) -> None:
    assert formats.percent(value) == shown


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_no_number_is_made_up(value: float | None) -> None:
    assert {
        formats.percent(value),
        formats.number(value),
        formats.points(value),
        formats.share(value),
        formats.seconds(value),
    } == {"n/a"}


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.001, "0.1"), (0.0001, "0.01"), (10_646 / 10_646_784, "0.1"), (1_064 / 10_646_784, "0.01"),
        (0.125, "12.5"), (1.0, "100.0"), (0.0123, "1.2"), (0.00034, "0.034"), (0.0, "0.0"),
    ],
)  # fmt: skip
def test_shares_of_d_keep_two_figures(share: float, shown: str) -> None:
    assert formats.share(share) == f"{shown}%"


def test_a_share_that_cannot_be_is_still_a_text() -> None:
    assert formats.share(-0.001).endswith("0.1%"), "of a damaged record: Home and the lists must open"


def test_thousands_are_separated_and_minus_is_a_minus_sign() -> None:
    assert formats.count(10_646_784) == "10,646,784"
    assert formats.number(-1234.5, 1) == "−1,234.5"
    assert formats.number(-0.0001, 2) == "0.00", "a rounded zero has no sign"


def test_intervals_join_with_a_dash_or_with_words_where_a_sign_would_confuse() -> None:
    assert formats.percent_interval(0.774, 0.826) == "77.4–82.6"
    assert formats.percent_interval(-0.051, -0.008) == "−5.1 to −0.8"
    assert formats.percent_interval(-0.1, 0.1, 0) == "−10 to 10"
    assert formats.interval(0.412, 0.45, 2) == "0.41–0.45"
    assert formats.percent_interval(None, 0.1) == formats.percent_interval(0.1, math.nan) == "no interval"


@pytest.mark.parametrize(
    ("low", "high", "digits", "shown"),
    [
        (-0.00423, -0.00031, 3, "−0.0042 to −0.0003"), (-0.004, -0.00002, 3, "−0.00400 to −0.00002"),
        (0.0004, 0.0312, 2, "0.0004–0.0312"), (0.04, 3.21, 1, "0.04–3.21"), (-0.3, -0.2, 0, "−0.3 to −0.2"),
        (-0.0004, 0.004, 3, "0.000 to 0.004"), (0.0, 0.004, 3, "0.000–0.004"), (-0.004, 0.0, 3, "−0.004 to 0.000"),
        (1e-17, 0.1, 2, "0.00–0.10"),
    ],
)  # fmt: skip
def test_an_interval_shows_zero_only_where_it_holds_it(low: float, high: float, digits: int, shown: str) -> None:
    assert formats.interval(low, high, digits) == shown


def test_a_value_has_as_many_decimals_as_its_interval() -> None:
    assert formats.estimate(-0.0021, -0.00423, -0.00031) == "−0.0021 (−0.0042 to −0.0003)"
    assert formats.percent_estimate(0.02, 0.0004, 0.05) == "2.00 (0.04–5.00)"
    assert formats.percent_estimate(0.825, 0.793, 0.853) == "82.5 (79.3–85.3)"
    assert formats.estimate(0.5, None, None) == "0.500" and formats.estimate(0.5, math.nan, 0.6) == "0.500"


def test_differences_carry_their_sign() -> None:
    assert formats.points(0.029) == "+2.9 points"
    assert formats.points(-0.029) == "−2.9 points"
    assert formats.points(0.0001) == "0.0 points"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(4.21, f"4.2{NB}s"), (200, f"3{NB}min 20{NB}s"), (7500, f"2{NB}h 5{NB}min"), (59.96, f"60.0{NB}s")],
)
def test_times(value: float, shown: str) -> None:
    assert formats.seconds(value) == shown


def test_days() -> None:
    assert formats.day("2026-11-20T14:05:33+00:00") == "20 Nov 2026, 14:05 UTC"
    assert formats.day("2026-11-20T14:05:33+02:00") == "20 Nov 2026, 12:05 UTC"
    assert formats.day(None) == "n/a" and formats.day("yesterday") == "yesterday"


def test_plural_and_lists() -> None:
    assert [formats.counted(n, "run") for n in (0, 1, 1821)] == ["0 runs", "1 run", "1,821 runs"]
    assert formats.counted(2, "entry") == "2 entries"
    assert formats.listed(["a"]) == "a" and formats.listed(["a", "b"]) == "a and b"
    assert formats.listed(["a", "b", "c", "d"]) == "a, b and 2 more"


def test_rough_durations_and_sizes() -> None:
    assert [formats.rough_seconds(value) for value in (0.2, 5, 600, 9000)] == ["1 s", "5 s", "10 min", "2.5 h"]
    left = [formats.time_left(value) for value in (None, 240.0, 0.0)]
    assert left == ["time left: not measured yet", "about 4 min left", "longer than measured so far"]
    assert [formats.byte_size(value) for value in (2**11, 87 * 2**20, 2**31)] == ["2 KiB", "87 MiB", "2.0 GiB"]


def test_estimates_have_their_interval_in_brackets() -> None:
    assert formats.percent_estimate(0.825, 0.793, 0.853) == "82.5 (79.3–85.3)"
    assert formats.percent_estimate(-0.05, -0.065, 0.01) == "−5.0 (−6.5 to 1.0)"
    assert formats.estimate(0.43, math.nan, math.nan) == "0.430" and formats.estimate(None, 0, 1) == "n/a"
    assert [formats.signed(value, 1) for value in (0.26, -0.26, 0.01, None)] == ["+0.3", "−0.3", "0.0", "n/a"]


def test_a_markdown_table_without_rows_says_so() -> None:
    assert formats.markdown_table(("a", "b"), [("1", "x|y")])[1:] == ["| --- | --- |", "| 1 | x\\|y |"]
    assert formats.markdown_table(("a",), []) == ["No row."]
