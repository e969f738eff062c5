"""A map of parts and a list of sentences that mark each other in the browser, without a rerun of the page.

The choice is in the address, where the browser writes it; Python only reads it, for a link that is opened.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from skillviz.show import text
from skillviz.ui import address

NAME = "skillviz_linked_map"
CHOICE = "marks"  # in the address: the chosen part or sentence
HTML = """
<div class="linked">
  <p role="status"></p>
  <div class="map"><table role="grid"><caption></caption><thead></thead><tbody></tbody></table></div>
  <div class="sentences"><p></p><ol></ol></div>
</div>
"""

_mount = st.components.v2.component(
    NAME,
    html=HTML,
    css=Path(__file__).with_suffix(".css").read_text(encoding="utf-8"),
    js=Path(__file__).with_suffix(".js").read_text(encoding="utf-8"),
)


def linked_map(data: dict[str, Any], *, key: str) -> None:
    """Draws the map and the sentences of `show.part_marks`; says so if the address names none of them."""
    chosen = address.current(CHOICE) or ""
    if chosen and chosen not in {one["key"] for one in (*data["parts"], *data["sentences"])}:
        st.caption(f"The address marks '{text.plain(chosen)}', which is none of these parts and sentences.")
        chosen = ""
    _mount(key=f"{NAME}.{key}", data={**data, "chosen": chosen, "name": CHOICE})
