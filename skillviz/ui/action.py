"""Buttons that start, store, delete or download something; they are disabled if the dashboard is read-only."""

from __future__ import annotations

from typing import Any

import streamlit as st

from skillviz.serving import read_only
from skillviz.serving.settings import settings


def action(label: str, *, disabled: bool = False, help: str | None = None, **more: Any) -> bool:
    """Draws `st.button` with these arguments and returns whether it was clicked."""
    if settings.read_only:
        disabled, help = True, read_only.REASON
    return st.button(label, disabled=disabled, help=help, **more)
