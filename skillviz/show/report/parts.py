"""The parts of a report before it is HTML: sections of words, charts, tables and code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from skillviz.show.exhibit import Exhibit

Make = Callable[[str], Exhibit]
"""Makes an exhibit in the theme of this name; a report holds each figure in both themes."""


@dataclass(frozen=True)
class Words:
    """A paragraph in Markdown; `about` names the glossary's entries that it needs."""

    markdown: str
    about: tuple[str, ...] = ()


@dataclass(frozen=True)
class Heading:
    """A heading inside a section, as plain text."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list of short remarks in Markdown."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Charts:
    """Exhibits that belong together: side by side if the page is wide."""

    makes: tuple[Make, ...]


@dataclass(frozen=True)
class Rows:
    """A table; its first column names the rows."""

    title: str
    table: pd.DataFrame


@dataclass(frozen=True)
class Code:
    """Text to copy, such as a command."""

    title: str
    text: str


Part = Words | Heading | Points | Charts | Rows | Code


@dataclass(frozen=True)
class Section:
    """One question with its answer and evidence; `name` is its anchor."""

    name: str
    title: str
    parts: tuple[Part, ...]
