"""The keyboard focus after a pressed button has disappeared, because Streamlit then drops it."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

_FOCUS, _MOVED = "skillviz_focus", "focus.moved"

_mount = st.components.v2.component(
    _FOCUS, html="<span></span>", js=Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
)


def move_to(key: str) -> None:
    """Moves the focus to the button of this key, which the next script run draws; for a callback."""
    number = st.session_state[_MOVED]["number"] if _MOVED in st.session_state else 0
    st.session_state[_MOVED] = {"key": key, "number": number + 1}


def follow(key: str) -> None:
    """Moves the focus to the button of this key if `move_to` has requested it; call it beside that button."""
    moved = st.session_state.get(_MOVED)
    if moved and moved["key"] == key:
        with st.container(key=f"touch-focus-{key}"):
            _mount(key=f"{_FOCUS}.{key}", data=moved, height=1)
