"""A figure with its parts: title, how to read it, alt text, table, explained words.

Exhibits are made from tables alone, without Streamlit: a page draws them as cards, a report writes them as HTML.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache, wraps
from hashlib import blake2b
from typing import Any, ParamSpec

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from pandas.util import hash_array, hash_pandas_object
from pydantic import BaseModel

from skillviz.plots.as_text import from_text, to_text

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
    """An exhibit that stores its figure as text and reads a new one for each reader.

    A figure is thousands of objects, takes a hundred times the memory, and Python's garbage collector visits each of
    them.
    """

    def __init__(self, figure: go.Figure, **others: Any) -> None:  # an exhibit's fields, from dataclasses.replace
        for name, value in others.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_packed", zlib.compress(to_text(figure).encode(), level=1))
        object.__setattr__(self, "_fresh", figure)

    @property
    def figure(self) -> go.Figure:
        fresh = self.__dict__.pop("_fresh", None)  # the first reader is the page that drew it
        return fresh if fresh is not None else from_text(zlib.decompress(self.__dict__["_packed"]).decode())


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
    """A digest that is equal for calls of equal content."""
    digest = blake2b()
    for part in _content(call):
        digest.update(len(part).to_bytes(8) + part)
    return digest.digest()


def _content(value: Any) -> Iterator[bytes]:
    """A value's content in parts: its type, then its rows, fields or items, or its text."""
    yield type(value).__qualname__.encode()
    if isinstance(value, pd.DataFrame | pd.Series):
        yield from _content(dict(value.dtypes.astype(str)) if isinstance(value, pd.DataFrame) else value.name)
        yield hash_pandas_object(value).to_numpy().tobytes()
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape}".encode()
        yield hash_array(value.ravel()).tobytes()
    elif is_dataclass(value) or isinstance(value, BaseModel):
        names = (field.name for field in fields(value)) if is_dataclass(value) else type(value).model_fields
        yield from _content([getattr(value, name) for name in names])
    elif isinstance(value, Mapping):
        yield from _content(list(value.items()))
    elif isinstance(value, list | tuple | set | frozenset):
        yield str(len(value)).encode()
        for item in value:
            yield from _content(item)
    else:
        yield repr(value).encode()
