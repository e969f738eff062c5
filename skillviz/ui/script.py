"""State that lasts for one run of a page's script: its memory, and whether its first figure has been sent."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import streamlit as st

Value = TypeVar("Value")

FRESH = 0.5  # seconds that values read from disk may be reused: within a run, a store hardly changes
LEAD = 0.05  # seconds for the browser to draw the first figure before it receives the rest of the page
LEAD_OF_VISITOR = 0.4  # the same for a new browser, which first loads the code that draws figures, 5 MB
DREW = "script.drew"  # session key: whether the session has been shown a figure
_memory: ContextVar[dict[str, Any] | None] = ContextVar("_memory", default=None)


def begin() -> None:
    """Clears the memory of the last script run; called once per run, before anything is read."""
    _memory.set({})


def once_read(name: str, read: Callable[[], Value]) -> Value:
    """The value that `read` returned moments ago in this script run, else a new one; always new outside of a page."""
    memory = _memory.get()
    if memory is None:
        return read()
    if name not in memory or time.monotonic() - memory[name][0] > FRESH:
        memory[name] = (time.monotonic(), read())
    return cast(Value, memory[name][1])


def first_figure_goes_ahead() -> None:
    """Waits a moment after the first figure of a script run, so that it is drawn before the rest of the page.

    Streamlit sends the content drawn so far whenever the script waits, and the browser draws everything that arrives
    together at once. Without the wait, the first figure would be visible only when the next ones are ready too.
    """
    memory = _memory.get()
    if memory is not None and "figure" not in memory:
        memory["figure"] = True
        time.sleep(LEAD if DREW in st.session_state else LEAD_OF_VISITOR)
        st.session_state[DREW] = True
