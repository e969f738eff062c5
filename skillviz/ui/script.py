"""What holds for one run of a page's script and for no longer: its memory, and that its first figure goes ahead."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import streamlit as st

Value = TypeVar("Value")

FRESH = 0.5  # seconds that a script may trust what it saw of the disk: within a run, a store hardly changes
LEAD = 0.05  # seconds that the browser has to draw the first figure before it is handed the rest of the page
LEAD_OF_VISITOR = 0.4  # the same for a browser that has just come: it first loads what draws figures, 5 MB
DREW = "script.drew"  # in the session: whether it has been shown a figure
_memory: ContextVar[dict[str, Any] | None] = ContextVar("_memory", default=None)


def begin() -> None:
    """Forgets the run before; once a run, before anything is read."""
    _memory.set({})


def once_read(name: str, read: Callable[[], Value]) -> Value:
    """What `read` returned moments ago in this run, else what it returns now; always anew outside of a page."""
    memory = _memory.get()
    if memory is None:
        return read()
    if name not in memory or time.monotonic() - memory[name][0] > FRESH:
        memory[name] = (time.monotonic(), read())
    return cast(Value, memory[name][1])


def first_figure_goes_ahead() -> None:
    """After a figure: if it is the run's first, waits a moment, so that it is drawn before what comes after it.

    Streamlit hands over what a script has drawn so far whenever the script waits, and the browser draws all that came
    together at once: the first figure would be seen only when the next ones are ready too.
    """
    memory = _memory.get()
    if memory is not None and "figure" not in memory:
        memory["figure"] = True
        time.sleep(LEAD if DREW in st.session_state else LEAD_OF_VISITOR)
        st.session_state[DREW] = True
