"""The button "Show code" beside "Copy link": the Python that makes the page's figure from the same run or study."""

from __future__ import annotations

from typing import Any

import streamlit as st

from skillviz.runs.store import folder_to_name, usual_root
from skillviz.serving import sign_in, visitor
from skillviz.show import code as codes
from skillviz.ui import cache, page_table
from skillviz.ui.frame import theme

_PLACE = "show-code.place"  # session key: the container beside "Copy link" of this script run


def place() -> None:
    """Keeps a place for the button, which `show` fills, except in presenter mode."""
    st.session_state[_PLACE] = None if page_table.is_presented() else st.container(width="content")


def show(page: str, **choices: Any) -> None:
    """Draws the button with the code for the page's figure at these choices; only the first call of a page does."""
    made = codes.code(page, _runs_dir(), theme=theme(), **choices)
    draw(made, "Python that makes a figure of this page, with the same runs on the machine:")


def show_list(page: str, **choices: Any) -> None:
    """Draws the button with the code that prints the page's list, unless one is drawn."""
    draw(codes.code(page, _runs_dir(), is_list=True, **choices), "Python that prints what this page lists:")


def _runs_dir() -> str:
    """The folder of the user's runs; empty if Python finds it by itself, and for users whose Python is elsewhere."""
    is_elsewhere = bool(sign_in.providers()) or not visitor.is_local()
    return "" if is_elsewhere else folder_to_name(cache.user_store().root, usual_root())


def draw(code: str, caption: str) -> None:
    """Draws the button with this code, unless one is drawn."""
    if (at := st.session_state.pop(_PLACE, None)) is not None:
        with at, st.popover("Show code", icon=":material/code:", type="tertiary", key="show-code"):
            st.caption(caption)
            st.code(code, language="python")
