"""Sentences and tables as HTML: emphasis is kept, everything else is escaped."""

from __future__ import annotations

import pandas as pd
import pytest

from skillviz.show import text
from skillviz.show.report import markup


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("**80 %** of *it*", "<strong>80 %</strong> of <em>it</em>"),
        ("run `a<b`", "run <code>a&lt;b</code>"),
        ("<b>x</b> & y", "&lt;b&gt;x&lt;/b&gt; &amp; y"),
        ("[a](http://b)", "[a](http://b)"),
        ("![a](http://b)", "![a](http://b)"),
        ("<http://b>", "&lt;http://b&gt;"),
    ],
)
def test_only_emphasis_and_code_are_markup(markdown: str, html: str) -> None:
    assert markup.inline(markdown) == html


@pytest.mark.parametrize("name", ["a_b*c*", "`x`", "[a](b)", "~x~ $y$", "a<b>c", "C:\\models"])
def test_a_name_that_was_escaped_for_a_page_is_shown_as_it_is(name: str) -> None:
    shown = markup.inline(text.plain(name))
    assert shown == name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def test_a_long_table_says_what_it_leaves_out() -> None:
    frame = pd.DataFrame({"row": range(markup.MOST_ROWS + 1)})
    html = markup.table(frame, "Rows")
    assert html.count("<tr>") == markup.MOST_ROWS + 1 and "The first 200 of 201 rows" in html
    assert "The first" not in markup.table(frame.head(markup.MOST_ROWS), "Rows")


def test_a_cell_is_escaped() -> None:
    assert "&lt;b&gt;" in markup.table(pd.DataFrame({"<i>": ["<b>"]}), "T") and "<i>" not in markup.table(
        pd.DataFrame({"<i>": ["<b>"]}), "T"
    )
