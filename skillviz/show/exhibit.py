"""A figure with everything that belongs to it: title, how to read it, words for the blind, table, words explained.

Exhibits are made from tables alone, without Streamlit: a page draws them as cards, a report writes them as HTML.
"""

from __future__ import annotations

import io
import pickle
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache, wraps
from hashlib import blake2b
from typing import Any, ParamSpec

import pandas as pd
import plotly.graph_objects as go

P = ParamSpec("P")
MOST_EXHIBITS = 512
"""Exhibits that are kept: the pages of some twenty runs. One takes some ten kilobytes."""


def over(of: str) -> str:
    """What the intervals of a figure are: `95% intervals over examples`."""
    return f"95% intervals over {of}"


OVER_EXAMPLES = over("examples")
OVER_SEEDS = over("examples and seeds")
PAIRED = f"{OVER_EXAMPLES}, paired"


@dataclass(frozen=True, eq=False)
class Exhibit:
    """A figure and what belongs to it, equal to itself alone: it is shared between readers, and nobody changes one.

    `name` is part of file names and keys; `reads` says how to read it, `alt` what it shows to somebody who cannot
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


class _Kept(Exhibit):
    """An exhibit with its figure as bytes, read anew for whoever asks for it.

    A figure is thousands of objects, a hundred times as large, and Python's garbage collector looks at each of them.
    """

    def __init__(self, figure: go.Figure, **others: Any) -> None:  # an exhibit's fields: dataclasses.replace gives them
        for name, value in others.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_packed", zlib.compress(pickle.dumps(figure), level=1))
        object.__setattr__(self, "_fresh", figure)

    @property
    def figure(self) -> go.Figure:
        fresh = self.__dict__.pop("_fresh", None)  # the first to ask is the page that had it drawn
        return fresh if fresh is not None else pickle.loads(zlib.decompress(self.__dict__["_packed"]))  # written above


class _Place:
    """Of one exhibit: who asks for it while it is being drawn waits for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.exhibit: Exhibit | None = None


def drawn_once(make: Callable[P, Exhibit]) -> Callable[P, Exhibit]:
    """The function, which draws no figure twice: that takes longer than all else that a page does.

    What it returns is shared between pages and readers, so that nobody may change it.
    """

    @wraps(make)
    def drawn(*arguments: P.args, **options: P.kwargs) -> Exhibit:
        place = _place(_digest((make.__module__, make.__qualname__, arguments, options)))
        with place.lock:
            if place.exhibit is None:
                made = make(*arguments, **options)
                place.exhibit = _Kept(**{field.name: getattr(made, field.name) for field in fields(made)})
            return place.exhibit

    return drawn


@lru_cache(maxsize=MOST_EXHIBITS)
def _place(call: bytes) -> _Place:
    return _Place()


def _digest(call: Any) -> bytes:
    """Equal for equal calls. They are only compared: what is written here is never read back."""
    written = io.BytesIO()
    pickler = pickle.Pickler(written)
    pickler.fast = True  # else what is written says which parts are the same object, and equal calls may differ in that
    pickler.dump(call)
    return blake2b(written.getvalue()).digest()
