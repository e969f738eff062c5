"""Brings the reader to the top of the page when its content has changed as a whole, which Streamlit does not."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

NAME = "skillviz_to_top"

_mount = st.components.v2.component(
    NAME, html="<span></span>", js=Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
)


def when_changed(content: str) -> None:
    """Scrolls up once each time that `content`, a name for what is shown, is another than before."""
    _mount(key=NAME, data={"content": content}, height=1)
