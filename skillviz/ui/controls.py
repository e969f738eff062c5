"""The widgets of the pages. Each choice is written to the address at once, so a copied link shows the same view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import streamlit as st

from skillviz.ui import address

T = TypeVar("T")


def select(
    name: str,
    label: str,
    options: Sequence[T],
    default: T,
    *,
    shown: Callable[[T], Any] = str,
    written: Callable[[T], str] = str,
    help: str | None = None,
    width: int | Literal["stretch"] = "stretch",
) -> T:
    """The option chosen in a box; `written` is its form in the address."""
    key = _seeded(name, options, default, written)
    value = st.selectbox(label, options, key=key, format_func=shown, help=help, width=width)
    return _kept(name, value, default, written)


def segments(
    name: str,
    label: str,
    options: Sequence[T],
    default: T,
    *,
    shown: Callable[[T], Any] = str,
    written: Callable[[T], str] = str,
    help: str | None = None,
) -> T:
    """The option chosen among a few that stand side by side."""
    key = _seeded(name, options, default, written)
    value = st.segmented_control(label, options, key=key, format_func=shown, help=help, required=True)
    return _kept(name, value, default, written)


def whole(name: str, label: str, low: int, high: int, default: int, *, help: str | None = None) -> int:
    """The whole number chosen with a slider, low <= number <= high."""
    key = _seeded(name, range(low, high + 1), default, str)
    return _kept(name, st.slider(label, low, high, key=key, help=help), default, str)


def switch(name: str, label: str, default: bool, *, help: str | None = None) -> bool:
    """Whether a switch is on."""
    key = _seeded(name, (True, False), default, _yes)
    return _kept(name, st.toggle(label, key=key, help=help), default, _yes)


def assign(name: str, value: Any) -> None:
    """Sets a control from elsewhere (a click in a chart); only before the control is drawn, or in a callback."""
    st.session_state[_key(name)] = value


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _key(name: str) -> str:
    return f"control.{name}"


def _seeded(name: str, options: Sequence[T], default: T, written: Callable[[T], str]) -> str:
    """The widget's key, its state set from address or memory where the widget does not know better."""
    key = _key(name)
    is_new = key not in st.session_state or st.session_state[key] not in options
    if is_new or address.asked(name) is not None:
        st.session_state[key] = address.choice(name, options, default, written)
    return key


def _kept(name: str, value: T | None, default: T, written: Callable[[T], str]) -> T:
    chosen = default if value is None else value
    address.keep(name, written(chosen))
    return chosen
