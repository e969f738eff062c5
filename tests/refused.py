"""Tests of refusals as tables: what is done, and the words of the error that say why it cannot be."""

from collections.abc import Callable
from typing import Any

import pytest


def refused(error: type[Exception], *cases: tuple[Any, ...]) -> Callable[[Any], None]:
    """Return a test in which each call raises the error. A case has a regular expression (None: any words), what is
    called, and its arguments. Its name is the expression: an argument's text may hold an address in memory."""

    @pytest.mark.parametrize("case", cases, ids=lambda case: str(case[0]))
    def test(case: tuple[Any, ...]) -> None:
        words, call, *arguments = case
        with pytest.raises(error, match=words):
            call(*arguments)

    return test


def refuses(
    error: type[BaseException], words: str | None, call: Callable[..., Any], /, *given: Any, **named: Any
) -> None:
    """Check that a call with these arguments raises the error, in words that match the regular expression."""
    with pytest.raises(error, match=words):
        call(*given, **named)
