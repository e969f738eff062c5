"""Embedded pages, `?embed=true`: no menu and no run bar; with `figure=NAME` one figure alone, for slides and sites.

Streamlit itself reads `embed` and `embed_options` (`light_theme`, `dark_theme`). Which other sites may show a page in a
frame is a setting of the server (docs/deploy.md).
"""

from __future__ import annotations

from html import escape
from urllib.parse import urlencode

import plotly.graph_objects as go
import streamlit as st

from skillviz.core import formats
from skillviz.show import text
from skillviz.ui import copy_link, page_table
from skillviz.ui.exports import class_of

# Session keys: the names of the figures that this script run has drawn, and a place above the page's content.
_DRAWN, _PLACE = "embed.drawn", "embed.place"
EDGE = 40  # pixels of a frame that its figure does not fill
# An embedded page has the page's own content, from its heading on.
PAGE = """
[data-testid="stHeader"], .st-key-run-bar { display: none }
.st-key-page-title :is(.st-key-skillviz_copy_link, .st-key-show-code) { display: none }
[data-testid="stMainBlockContainer"] { padding-top: 1rem }
"""
# All that is not the figure or around it goes, once it is there; until then, and if it is not, the page shows what it
# has to say.
ALONE = """
[data-testid="stMain"]:has(.{0}) :is(
  [data-testid="stElementContainer"]:not(.{0}), [data-testid="stLayoutWrapper"]:not(:has(.{0})),
  [data-testid="stColumn"]:not(:has(.{0}))
) {{ display: none }}
[data-testid="stMain"]:has(.{0}) [data-testid="stMainBlockContainer"] {{ padding: 0.5rem }}
[data-testid="stMain"]:has(.{0}) [data-testid="stColumn"] {{ flex: 1 1 100%; width: 100% }}
[data-testid="stMain"]:has(.{0}) [data-testid="stVerticalBlock"] {{ border: none; padding: 0 }}
"""


def begin() -> None:
    """Draws, on an embedded page, the style that hides what is not asked for; on other pages nothing."""
    st.session_state[_DRAWN] = []
    if st.context.is_embedded:
        st.session_state[_PLACE] = st.empty()
        name = st.query_params.get(page_table.FIGURE)
        st.html(f"<style>{PAGE}{ALONE.format(class_of(f'chart.{name}')) if name else ''}</style>")


def drew(name: str) -> None:
    """Records that the page has drawn this figure."""
    st.session_state.setdefault(_DRAWN, []).append(name)


def end() -> None:
    """Shows, above an embedded page, that it has no figure of the asked name, and the names that it has."""
    name, drawn = st.query_params.get(page_table.FIGURE), st.session_state.get(_DRAWN, [])
    if st.context.is_embedded and name and name not in drawn:
        known = f"the figures here are {formats.listed(drawn, 20)}" if drawn else "no figure is drawn here"
        place = st.session_state[_PLACE]
        place.error(f"There is no figure '{text.plain(name)}' on this page; {known}.", icon=":material/error:")


def frame_of(name: str, title: str, figure: go.Figure) -> str:
    """The HTML of a frame that shows this figure of the present view alone, with the defaults of a copied link."""
    view = {**copy_link.included(), **st.query_params.to_dict(), "embed": "true", page_table.FIGURE: name}
    address = escape(f"{st.context.url or ''}?{urlencode(view)}")
    height = (figure.layout.height or 450) + EDGE
    return f'<iframe title="{escape(title)}" src="{address}" width="100%" height="{height}"></iframe>'
