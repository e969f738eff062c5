"""The address bar as the state of a view: every choice is always written there, so a copied link shows the same.

A choice lives in the session too, because Streamlit empties the address on a page switch. What the address says
wins when somebody typed it or went back; what the session says wins otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import streamlit as st

T = TypeVar("T")
RUN = "run"
_WRITTEN = "address.written"
_KEPT = "address.kept"


def asked(name: str) -> str | None:
    """The value that the address asks for, when it is not what we wrote there ourselves."""
    value = st.query_params.get(name)
    return value if value is not None and value != _memory(_WRITTEN).get(name) else None


def kept(name: str) -> str | None:
    """The value that this session used last, on whatever page."""
    return _memory(_KEPT).get(name)


def current(name: str) -> str | None:
    """What the address asks for, else what the session used last."""
    return asked(name) or kept(name)


def keep(name: str, value: str) -> None:
    """Writes the value to the address and to the session's memory."""
    _memory(_KEPT)[name] = value
    _memory(_WRITTEN)[name] = value
    if st.query_params.get(name) != value:
        st.query_params[name] = value


def remember(name: str, value: str) -> None:
    """Keeps in the session alone what is too long for an address."""
    forget(name)
    _memory(_KEPT)[name] = value


def forget(name: str) -> None:
    """Removes the value from the address and from memory."""
    for place in (_KEPT, _WRITTEN):
        _memory(place).pop(name, None)
    if name in st.query_params:
        del st.query_params[name]


def choice(name: str, options: Sequence[T], default: T, written: Callable[[T], str] = str) -> T:
    """The option that address or session names, else the default; an unknown one is passed over."""
    by_text = {written(option): option for option in options}
    found = current(name)
    return by_text.get(found, default) if found is not None else default


def _memory(place: str) -> dict[str, str]:
    memory: dict[str, str] = st.session_state.setdefault(place, {})
    return memory
