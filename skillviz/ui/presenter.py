"""The presenter mode: large type and figures for an audience, and no menu (`page_table.navigation` omits it).

The mode is only in the address, so that any other page has its menu again.
"""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.ui import page_table

STYLE = Path(__file__).with_suffix(".css")
FACTOR = 1.5
UNDER = 50  # pixels of table, download and help under a figure, which presenter mode omits
OVER, EDGE = 13.8, 12  # rem from the window's top to the first figure at most, and pixels below it
OVER_ON = {page_table.HOME: 20.6, "sparsity": 18.6}  # pages with more content above the first figure
REM = 16  # pixels of a page's type outside presenter mode
PROJECTOR = {"height": 720, "rem": 17.92}  # a small projector, 1280x720, until the window has reported its size
_WINDOW, _OVER = "presenter.window", "presenter.over"
ENTER, LEAVE = "presenter-enter", "presenter-leave"  # keys of the buttons that enter and leave the mode
_MEASURE = "skillviz_window"

_mount = st.components.v2.component(
    _MEASURE, html="<span></span>", js=Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
)
_FOCUS, _MOVED = "skillviz_focus", "focus.moved"

_focus = st.components.v2.component(
    _FOCUS, html="<span></span>", js=Path(__file__).with_name("focus.js").read_text(encoding="utf-8")
)


def begin(page: str) -> None:
    """Draws, in presenter mode, the style for large type and the exit button in a corner of every page."""
    if page_table.is_presented():
        st.session_state[_OVER] = OVER_ON.get(page, OVER)
        st.html(STYLE)
        with st.container(key=LEAVE):
            st.button("Leave presenter mode", on_click=_leave, icon=":material/close_fullscreen:", shortcut="Esc")
        follow_focus(LEAVE)
        with st.container(key="presenter-window"):
            _mount(key=_MEASURE, height=1, data=_window(), default={"window": None}, on_window_change=_measured)


def _window() -> dict[str, float]:
    """The window's height and type size, in pixels."""
    known: dict[str, float] = st.session_state.get(_WINDOW, PROJECTOR)
    return known


def _measured() -> None:
    st.session_state[_WINDOW] = dict(st.session_state[_MEASURE]["window"])


def factors_of(drawn: go.Figure) -> tuple[float, float]:
    """The factors by which a figure and its type are enlarged.

    In presenter mode the figure's factor is FACTOR, or less if it would not fit in the window below a page's heading,
    but never below 1. Its type is enlarged at least as much as the page's type, up to FACTOR.
    """
    if not page_table.is_presented():
        return 1, 1
    window = _window()
    room = window["height"] - st.session_state.get(_OVER, OVER) * window["rem"] - EDGE
    factor = max(1, min(FACTOR, room / drawn.layout.height)) if drawn.layout.height else FACTOR
    return factor, max(factor, min(FACTOR, window["rem"] / REM))


def unenlarged(height: int) -> int:
    """The height at which to draw a figure that is shown `height` pixels high; presenter mode adds UNDER."""
    return round((height + UNDER) / FACTOR) if page_table.is_presented() else height


def pixels(plain: int, factor: float = FACTOR) -> int:
    """The size in pixels of an element that contains type, enlarged in presenter mode."""
    return round(plain * factor) if page_table.is_presented() else plain


def columns(count: int) -> list[DeltaGenerator]:
    """Containers for figures side by side; in presenter mode one below the other, since large type needs the width."""
    return [st.container() for _ in range(count)] if page_table.is_presented() else list(st.columns(count))


def small_print(caption: str) -> None:
    """Draws a caption, except in presenter mode, which has no space for it."""
    if not page_table.is_presented():
        st.caption(caption)


def enter() -> None:
    """Draws the button that enters the mode; nothing if it is on."""
    if not page_table.is_presented():
        st.button(
            "Present", on_click=_enter, key=ENTER, type="tertiary", icon=":material/present_to_all:",
            help="Large type, no menu.",
        )  # fmt: skip
        follow_focus(ENTER)


def _enter() -> None:
    st.query_params[page_table.PRESENT] = page_table.YES
    move_focus(LEAVE)


def _leave() -> None:
    st.query_params.pop(page_table.PRESENT, None)
    move_focus(ENTER)


def move_focus(key: str) -> None:
    """Moves the focus to the button of this key, which the next script run draws; for a callback."""
    number = st.session_state[_MOVED]["number"] if _MOVED in st.session_state else 0
    st.session_state[_MOVED] = {"key": key, "number": number + 1}


def follow_focus(key: str) -> None:
    """Moves the focus to the button of this key if `move_focus` has requested it; call it beside that button."""
    moved = st.session_state.get(_MOVED)
    if moved and moved["key"] == key:
        with st.container(key=f"touch-focus-{key}"):
            _focus(key=f"{_FOCUS}.{key}", data=moved, height=1)
