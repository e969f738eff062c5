"""Texts, tables and exhibits as HTML. Everything is escaped here: names, notes and paths are a user's own words."""

from __future__ import annotations

from html import escape

import pandas as pd
from markdown_it import MarkdownIt

from skillviz.analysis.readable_table import as_stored, html
from skillviz.core import formats
from skillviz.show.exhibit import Exhibit
from skillviz.show.glossary import NAMES

MOST_ROWS = 200

# emphasis, code and escapes; no HTML, links or pictures, whoever wrote the text
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).disable(["link", "image", "autolink"])


def inline(markdown: str) -> str:
    """The Markdown of a sentence as HTML."""
    rendered: str = _MARKDOWN.renderInline(markdown)
    return rendered


def anchor(word: str) -> str:
    """Where the glossary's entry of a word stands."""
    return f"word-{word}"


def words(names: tuple[str, ...]) -> str:
    """Links to the glossary's entries, or nothing."""
    if not names:
        return ""
    links = [f'<a href="#{anchor(name)}">{escape(NAMES.get(name, name))}</a>' for name in names]
    return f'<p class="words">Words: {", ".join(links)}</p>'


def table(frame: pd.DataFrame, title: str) -> str:
    """The frame as an HTML table with this caption; the first column names the rows."""
    inside = html(as_stored(frame.head(MOST_ROWS)), title)
    left_out = len(frame) - MOST_ROWS
    more = f"<p>The first {MOST_ROWS} of {len(frame):,} rows; the dashboard's CSV has all.</p>" if left_out > 0 else ""
    # what scrolls sideways must be reachable by keyboard
    return f'<div class="table" role="region" aria-label="{escape(title)}" tabindex="0">{inside}</div>{more}'


def figure(exhibit: Exhibit, number: int) -> str:
    """The exhibit as an empty place of the figure's height, with title, reading line and folded table."""
    heading, reads, alt = escape(exhibit.title), escape(exhibit.reads), escape(exhibit.alt)
    height = int(exhibit.figure.layout.height)
    rows = formats.counted(len(exhibit.table), "row")
    return (
        f'<figure><h3>{heading}</h3><div class="chart" role="img" aria-label="{alt}" data-figure="{number}" '
        f'style="height:{height}px"></div><noscript><p>{alt}</p></noscript>'
        f"<figcaption>How to read this: {reads}</figcaption>{words(exhibit.words)}"
        f"<details><summary>Table ({rows})</summary>{table(exhibit.table, exhibit.title)}</details></figure>"
    )
