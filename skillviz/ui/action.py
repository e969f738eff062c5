"""Buttons that start, store, delete or download something; they are disabled if the dashboard is read-only."""

from __future__ import annotations

from typing import Any

import streamlit as st

from skillviz import read_only


def action(label: str, *, disabled: bool = False, help: str | None = None, **more: Any) -> bool:
    """Draws `st.button` with these arguments and returns whether it was clicked."""
    if read_only.is_on():
        disabled, help = True, read_only.REASON
    return st.button(label, disabled=disabled, help=help, **more)
