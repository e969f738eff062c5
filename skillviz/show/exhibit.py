"""A figure with everything that belongs to it: title, how to read it, words for the blind, table, words explained.

Exhibits are made from tables alone, without Streamlit: a page draws them as cards, a report writes them as HTML.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from hashlib import blake2b
from typing import ParamSpec

import pandas as pd
import plotly.graph_objects as go

P = ParamSpec("P")
MOST_EXHIBITS = 96
"""Exhibits that are kept; a figure takes some hundred kilobytes."""


def over(of: str) -> str:
    """What the intervals of a figure are: `95% intervals over examples`."""
    return f"95% intervals over {of}"


OVER_EXAMPLES = over("examples")
OVER_SEEDS = over("examples and seeds")
PAIRED = f"{OVER_EXAMPLES}, paired"


@dataclass(frozen=True)
class Exhibit:
    """`name` is part of file names and keys; `reads` says how to read it, `alt` what it shows to somebody who cannot
    see it; `words` are the glossary's entries that help with it, `finding` what it comes to, in Markdown. For a picture
    that stands by itself `of` says which part of a run it shows, `intervals` what its intervals are; empty where it
    shows no part, or draws none."""

    name: str
    title: str
    figure: go.Figure
    reads: str
    alt: str
    table: pd.DataFrame
    words: tuple[str, ...] = ()
    finding: str = ""
    intervals: str = ""
    of: str = ""


@dataclass(frozen=True)
class _Call:
    """A call, equal to another one of the same function with the same arguments."""

    digest: bytes
    make: Callable[[], Exhibit] = field(compare=False)


def drawn_once(make: Callable[P, Exhibit]) -> Callable[P, Exhibit]:
    """The function, which draws no figure twice: that takes longer than all else that a page does.

    What it returns is shared between pages and readers, so that nobody may change it.
    """

    @wraps(make)
    def drawn(*arguments: P.args, **options: P.kwargs) -> Exhibit:
        call = pickle.dumps((make.__module__, make.__qualname__, arguments, options))  # only compared, never read back
        return _draw(_Call(blake2b(call).digest(), lambda: make(*arguments, **options)))

    return drawn


@lru_cache(maxsize=MOST_EXHIBITS)
def _draw(call: _Call) -> Exhibit:
    return call.make()
