"""Tests that every error is a complete sentence."""

from __future__ import annotations

import pytest

from skillviz.errors import MOST_LETTERS, BadInput, CorruptRun, visible


@pytest.mark.parametrize("kind", [BadInput, CorruptRun])
def test_what_is_quoted_whole_is_shortened_and_its_advice_stays(kind: type[Exception]) -> None:
    error = kind(f"'{'x' * 900_000}' is no size; give a share such as 1%.")
    assert len(str(error)) < MOST_LETTERS + 50
    assert "'xxx" in str(error) and str(error).endswith("is no size; give a share such as 1%.")
    assert str(kind("short.").args[0]) == "short."


def test_a_library_s_words_of_several_lines_become_one() -> None:
    assert BadInput("a file cannot be read (no thrift:\n  bad data\n).").args[0] == (
        "a file cannot be read (no thrift: bad data )."
    )


def test_control_characters_are_written_out() -> None:
    assert BadInput("'\x1b[8mhidden\x07\u202e' is no size.").args[0] == "'\\x1b[8mhidden\\x07\\u202e' is no size."
    assert visible("a\tb\nc é 日本") == "a\tb\nc é 日本"
