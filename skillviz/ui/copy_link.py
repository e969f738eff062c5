"""The button "Copy link", which copies the address of the present view to the clipboard.

The address leaves out defaults. The copied link includes a default that other runs and studies may change later, so
that it still opens the same view.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

import streamlit as st

from skillviz.ui import page_table

NAME = "skillviz_copy_link"
HTML = """
<div class="copy-link">
  <button type="button" title="Copy the address of this view" aria-label="Copy link">
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <path d="M10 8 H7 a4 4 0 0 0 0 8 H10 M14 8 H17 a4 4 0 0 1 0 8 H14 M8.5 12 H15.5"/>
    </svg>
    <span class="words">Copy link</span>
  </button>
  <p role="status"></p>
  <input hidden readonly aria-label="Address of this view">
</div>
"""
HEIGHT = 36
_INCLUDED = "copy-link.included"  # session key

_mount = st.components.v2.component(
    NAME,
    html=HTML,
    css=Path(__file__).with_suffix(".css").read_text(encoding="utf-8"),
    js=Path(__file__).with_suffix(".js").read_text(encoding="utf-8"),
)


def begin() -> None:
    """Forgets the defaults that the page before included."""
    st.session_state[_INCLUDED] = {}


def included() -> dict[str, str]:
    """The defaults that the page has included so far in this script run, by name."""
    known: dict[str, str] = st.session_state.setdefault(_INCLUDED, {})
    return known


def include(name: str, value: str) -> None:
    """Adds a default that the address leaves out to the copied link; draws nothing visible."""
    included()[name] = value
    with st.container(key=f"copied-{name}"):
        st.html(f'<span class="copied-too" data-name="{escape(name)}" data-value="{escape(value)}"></span>')


def button() -> None:
    """Draws the button, except in presenter mode."""
    if not page_table.is_presented():
        _mount(key=NAME, width="content", height=HEIGHT)
