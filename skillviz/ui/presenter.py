"""The presenter mode: large type and large figures for a room, and no menu (which `page_table.navigation` leaves out).

It is in the address and nowhere else, so that every other page has its menu back.
"""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go
import streamlit as st

from skillviz.plots.enlarged import enlarged
from skillviz.ui import page_table

STYLE = Path(__file__).with_suffix(".css")
FACTOR = 1.5


def enlarge() -> None:
    """Large type for all that is drawn, in presenter mode."""
    if page_table.is_presented():
        st.html(STYLE)


def figure(drawn: go.Figure) -> go.Figure:
    """The figure as it is shown: larger in presenter mode."""
    return enlarged(drawn, FACTOR) if page_table.is_presented() else drawn


def button() -> None:
    """Enters or leaves the mode."""
    if page_table.is_presented():
        st.button("Leave presenter mode", on_click=_leave, icon=":material/close_fullscreen:")
    else:
        st.button("Present", on_click=_enter, icon=":material/present_to_all:", help="Large type, no menu.")


def _enter() -> None:
    st.query_params[page_table.PRESENT] = page_table.YES


def _leave() -> None:
    st.query_params.pop(page_table.PRESENT, None)
