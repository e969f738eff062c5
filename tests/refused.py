"""Tests of refusals as tables: what is done, and the words of the error that say why it cannot be."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def refused(error: type[Exception], *cases: tuple[str, Callable[[], object]]) -> Callable[[str, Callable], None]:
    """Return a test in which each call raises the error with the words before it, a regular expression."""

    @pytest.mark.parametrize(("words", "call"), cases, ids=[words for words, _ in cases])
    def test(words: str, call: Callable[[], object]) -> None:
        with pytest.raises(error, match=words):
            call()

    return test
