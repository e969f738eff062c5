"""A figure with its parts: title, how to read it, alt text, table, explained words.

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
"""Cached exhibits: the pages of some twenty runs. One takes some ten kilobytes."""


def over(of: str) -> str:
    """The kind of a figure's intervals: `95% intervals over examples`."""
    return f"95% intervals over {of}"


OVER_EXAMPLES = over("examples")
OVER_SEEDS = over("examples and seeds")
PAIRED = f"{OVER_EXAMPLES}, paired"


@dataclass(frozen=True, eq=False)
class Exhibit:
    """A figure with its parts, compared by identity: readers share it, so it must not be modified.

    `name` is part of file names and keys; `reads` says how to read it, `alt` describes it for readers who cannot see
    it; `words` are helpful entries of the glossary, `finding` is its conclusion, in Markdown. For a picture shown on
    its own, `of` names the part of a run that it shows and `intervals` the kind of its intervals; empty if it shows
    no part, or has none."""

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
    """An exhibit that stores its figure as bytes and unpickles a new one for each reader.

    A figure is thousands of objects, takes a hundred times the memory, and Python's garbage collector visits each of
    them.
    """

    def __init__(self, figure: go.Figure, **others: Any) -> None:  # an exhibit's fields, from dataclasses.replace
        for name, value in others.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_packed", zlib.compress(pickle.dumps(figure), level=1))
        object.__setattr__(self, "_fresh", figure)

    @property
    def figure(self) -> go.Figure:
        fresh = self.__dict__.pop("_fresh", None)  # the first reader is the page that drew it
        return fresh if fresh is not None else pickle.loads(zlib.decompress(self.__dict__["_packed"]))  # written above


class _Place:
    """The cache slot of one exhibit: requests made while it is being drawn wait for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.exhibit: Exhibit | None = None


def drawn_once(make: Callable[P, Exhibit]) -> Callable[P, Exhibit]:
    """Caches a function so that no figure is drawn twice: drawing takes longer than everything else on a page.

    Pages and readers share the result, so it must not be modified.
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
    """A digest that is equal for equal calls. Digests are only compared: the pickle is never read back."""
    written = io.BytesIO()
    pickler = pickle.Pickler(written)
    pickler.fast = True  # otherwise the pickle records shared objects, in which equal calls may differ
    pickler.dump(call)
    return blake2b(written.getvalue()).digest()
