"""A table whose rows open something: by a click or tap anywhere on a row, by its box, or by Shift+Space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

_CLICK = "skillviz_row_click"

_mount = st.components.v2.component(
    _CLICK, html="<span></span>", js=Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
)


def rows_that_open(table: pd.DataFrame, *, key: str, **settings: Any) -> None:
    """Draws the table; its `on_select` is called when another row is selected, and `selected` returns the row."""
    with st.container(key=f"touch-{key}"):
        _mount(key=f"{_CLICK}.{key}", data=key.replace(".", "-"), height=1)
    st.dataframe(table, key=key, hide_index=True, selection_mode="single-row", **settings)


def selected(key: str) -> int | None:
    """The index of the selected row in the table of this key; None if no row is selected."""
    rows: list[int] = st.session_state[key]["selection"]["rows"]
    return rows[-1] if rows else None
