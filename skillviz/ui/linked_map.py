"""A map of parts and a list of sentences that mark each other in the browser, without a rerun of the page.

The choice is in the address, where the browser writes it; Python only reads it, when a link is opened.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

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
    """Draws the map and the sentences of `show.part_effects.linked_map`, at first with the address's choice."""
    _mount(key=f"{NAME}.{key}", data={**data, "chosen": address.current(CHOICE) or "", "name": CHOICE})
