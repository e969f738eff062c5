"""The presenter mode: large type and large figures for a room, and no menu (which `page_table.navigation` leaves out).

It is in the address and nowhere else, so that every other page has its menu back.
"""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.plots.enlarged import enlarged
from skillviz.ui import page_table

STYLE = Path(__file__).with_suffix(".css")
FACTOR = 1.5
UNDER = 50  # pixels of the table, the download and the help under a figure, which a room does not see


def begin() -> None:
    """In presenter mode: large type for all that is drawn, and the way out in a corner of every page."""
    if page_table.is_presented():
        st.html(STYLE)
        with st.container(key="presenter-leave"):
            st.button("Leave presenter mode", on_click=_leave, icon=":material/close_fullscreen:", shortcut="Esc")


def figure(drawn: go.Figure) -> go.Figure:
    """The figure as it is shown: larger in presenter mode."""
    return enlarged(drawn, FACTOR) if page_table.is_presented() else drawn


def unenlarged(height: int) -> int:
    """The height to draw a figure in that shall have `height` pixels as it is shown, in a room with UNDER."""
    return round((height + UNDER) / FACTOR) if page_table.is_presented() else height


def pixels(plain: int, factor: float = FACTOR) -> int:
    """A size that is given in pixels and holds type, which is larger in presenter mode."""
    return round(plain * factor) if page_table.is_presented() else plain


def columns(count: int) -> list[DeltaGenerator]:
    """Places for figures side by side; in a room one under the other, as their large type needs the whole width."""
    return [st.container() for _ in range(count)] if page_table.is_presented() else list(st.columns(count))


def small_print(caption: str) -> None:
    """A caption for whoever reads alone; a room has no place for it."""
    if not page_table.is_presented():
        st.caption(caption)


def enter() -> None:
    """The button that enters the mode; nothing within it."""
    if not page_table.is_presented():
        st.button(
            "Present", on_click=_enter, type="tertiary", icon=":material/present_to_all:", help="Large type, no menu."
        )


def _enter() -> None:
    st.query_params[page_table.PRESENT] = page_table.YES


def _leave() -> None:
    st.query_params.pop(page_table.PRESENT, None)
