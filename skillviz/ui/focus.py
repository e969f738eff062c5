"""Where the keyboard goes when the button that was pressed is gone: Streamlit leaves it nowhere."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

_FOCUS, _MOVED = "skillviz_focus", "focus.moved"

_mount = st.components.v2.component(
    _FOCUS, html="<span></span>", js=Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
)


def move_to(key: str) -> None:
    """Moves it to the button of this key, which the next run draws; for a callback."""
    number = st.session_state[_MOVED]["number"] if _MOVED in st.session_state else 0
    st.session_state[_MOVED] = {"key": key, "number": number + 1}


def follow(key: str) -> None:
    """Stands beside the button of this key and does what `move_to` asks."""
    moved = st.session_state.get(_MOVED)
    if moved and moved["key"] == key:
        with st.container(key=f"touch-focus-{key}"):
            _mount(key=f"{_FOCUS}.{key}", data=moved, height=1)
