"""Test that user-supplied names of labels and tasks cannot affect the terminal that prints them."""

from __future__ import annotations

import pandas as pd
import pytest

from skillviz.commands import output

EVIL = "\x1b]0;taken\x07 \x1b[8mhidden\u202e [bold]"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_names_move_no_cursor_and_hide_nothing(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    monkeypatch.setenv("COLUMNS", "200")
    output.say(EVIL)
    output.note(EVIL)
    output.print_rows(EVIL, [EVIL], [[EVIL]])
    output.print_table(EVIL, pd.DataFrame({EVIL: [EVIL, "b"], "other": [1.0, 2.0]}), is_alone=False)
    with output.progress_bar(EVIL, 3) as advance:
        advance(1, 3, EVIL)
    said = capsys.readouterr()
    for text in (said.out, said.err):
        assert "\\x1b]0;taken\\x07" in text and "[bold]" in text and "\\u202e" in text
        assert not {"\x07", "\u202e"} & set(text) and "\x1b]" not in text and "\x1b[8m" not in text
