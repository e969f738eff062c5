"""Buttons that save a chart as PNG or SVG. The browser draws the picture itself: no network, no kaleido.

They use the plotly.js that Streamlit brings for its charts. Where another version of Streamlit hides it, the
buttons say so and point to the camera over the chart, which always works.
"""

from __future__ import annotations

import re
from pathlib import Path

import streamlit as st

NAME = "skillviz_pictures"
HTML = """
<div class="pictures">
  <button type="button" value="png">Picture (PNG)</button>
  <button type="button" value="svg">Picture (SVG)</button>
</div>
<p role="status"></p>
"""
HERE = Path(__file__)

_buttons = st.components.v2.component(
    NAME,
    html=HTML,
    css=HERE.with_suffix(".css").read_text(encoding="utf-8"),
    js=HERE.with_suffix(".js").read_text(encoding="utf-8"),
)


def buttons(chart: str, *, file: str, ground: str) -> None:
    """Draws the two buttons for the chart of this widget key; `file` is the picture's name without its ending.

    `ground` is the picture's background, a hex colour: the chart itself has none.
    """
    _buttons(key=f"pictures.{chart}", data={"chart": class_of(chart), "file": file, "ground": ground})


def class_of(key: str) -> str:
    """The class that Streamlit gives to the element of a widget's key."""
    return "st-key-" + re.sub(r"[^a-zA-Z0-9_-]", "-", key.strip())
