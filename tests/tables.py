"""Tests as tables: each case has a name, what makes its value, and what the value equals or says."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from skillviz.core.formats import SPACE
from tests.core.by_hand import by_hand


def plain(text: str) -> str:
    return text.replace(SPACE, " ")


def equal(cases: Mapping[str, tuple[Callable[[], Any], Any]]) -> Callable[[Any], None]:
    """Return a test in which each made value equals the expected one."""
    return by_hand(*((name, expected, make) for name, (make, expected) in cases.items()))


def says(cases: Mapping[str, tuple[Any, ...]]) -> Callable[[str], None]:
    """Return a test of texts. A case makes one, and lists words that it has and, after them, words that it lacks."""

    @pytest.mark.parametrize("case", cases)
    def test(case: str) -> None:
        make, has, *lacks = cases[case]
        check(make(), has, *lacks)

    return test


def check(text: str, has: tuple[str, ...], lacks: tuple[str, ...] = ()) -> None:
    """Assert that the text has and lacks these words. It stands between ^ and $, so "^A" is a text that begins so."""
    said = f"^{plain(text)}$"
    assert ([word for word in has if word not in said], [word for word in lacks if word in said]) == ([], []), said
