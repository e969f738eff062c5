"""Numbers as a reader sees them."""

from __future__ import annotations

import math

import pytest

from skillviz.show import text

NB = text.SPACE


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.801, f"80.1{NB}%"), (0.0, f"0.0{NB}%"), (1.0, f"100.0{NB}%"), (-0.029, f"−2.9{NB}%"), (None, "n/a")],
)
def test_percents_have_one_decimal_and_a_space_that_does_not_break(value: float | None, shown: str) -> None:
    assert text.percent(value) == shown


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_no_number_is_made_up(value: float | None) -> None:
    assert {text.percent(value), text.number(value), text.points(value), text.share(value), text.seconds(value)} == {
        "n/a"
    }


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.001, "0.1"), (0.0001, "0.01"), (10_646 / 10_646_784, "0.1"), (1_064 / 10_646_784, "0.01"),
        (0.125, "12.5"), (1.0, "100.0"), (0.0123, "1.2"), (0.00034, "0.034"), (0.0, "0.0"),
    ],
)  # fmt: skip
def test_shares_of_d_keep_two_figures(share: float, shown: str) -> None:
    assert text.share(share) == f"{shown}{NB}%"


def test_thousands_are_separated_and_minus_is_a_minus_sign() -> None:
    assert text.count(10_646_784) == "10,646,784"
    assert text.number(-1234.5, 1) == "−1,234.5"
    assert text.number(-0.0001, 2) == "0.00", "a rounded zero has no sign"


def test_intervals_join_with_a_dash_or_with_words_where_a_sign_would_confuse() -> None:
    assert text.percent_interval(0.774, 0.826) == "77.4–82.6"
    assert text.percent_interval(-0.051, -0.008) == "−5.1 to −0.8"
    assert text.percent_interval(-0.1, 0.1, 0) == "−10 to 10"
    assert text.number_interval(0.412, 0.45, 2) == "0.41–0.45"
    assert text.percent_interval(None, 0.1) == text.percent_interval(0.1, math.nan) == "no interval"


def test_differences_carry_their_sign() -> None:
    assert text.points(0.029) == "+2.9 points"
    assert text.points(-0.029) == "−2.9 points"
    assert text.points(0.0001) == "0.0 points"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(4.21, f"4.2{NB}s"), (200, f"3{NB}min 20{NB}s"), (7500, f"2{NB}h 5{NB}min"), (59.96, f"60.0{NB}s")],
)
def test_times(value: float, shown: str) -> None:
    assert text.seconds(value) == shown


def test_days() -> None:
    assert text.day("2026-11-20T14:05:33+00:00") == "20 Nov 2026, 14:05 UTC"
    assert text.day("2026-11-20T14:05:33+02:00") == "20 Nov 2026, 12:05 UTC"
    assert text.day(None) == "n/a" and text.day("yesterday") == "yesterday"


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("/data/models/minilm-l6", "minilm-l6"),
        ("../out/minilm-sst2/", "minilm-sst2"),
        ("microsoft/MiniLM", "microsoft/MiniLM"),
        ("org/name@main", "org/name@main"),
        ("org/name@" + "a1" * 20, "org/name@a1a1a1a"),
        ("C:\\models\\mine", "mine"),
        ("tasks/mine.yaml", "tasks/mine.yaml"),
        ("./tasks/mine.yaml", "mine"),
    ],
)
def test_short_sources(source: str, shown: str) -> None:
    assert text.short_source(source) == shown


def test_the_last_part_is_the_name_alone() -> None:
    assert text.last_part("microsoft/MiniLM") == text.last_part("/data/MiniLM/") == "MiniLM"


def test_plural_and_lists() -> None:
    assert [text.counted(n, "run") for n in (0, 1, 1821)] == ["0 runs", "1 run", "1,821 runs"]
    assert text.counted(2, "entry") == "2 entries"
    assert text.listed(["a"]) == "a" and text.listed(["a", "b"]) == "a and b"
    assert text.listed(["a", "b", "c", "d"]) == "a, b and 2 more"


def test_a_users_names_are_not_read_as_markdown() -> None:
    assert text.plain("a_b*c [d](e) $x$ :red[f]") == r"a\_b\*c \[d\]\(e\) \$x\$ \:red\[f\]"


def test_a_command_in_a_sentence_stays_code() -> None:
    assert text.with_code("set A_B; `run --x '${A_B}'` makes it") == r"set A\_B; `run --x '${A_B}'` makes it"
    assert text.with_code("a `b") == r"a \`b"
