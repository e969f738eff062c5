"""Downloads: a table as CSV, Markdown or LaTeX, a chart as one HTML file or a picture, runs as a zip.

Pictures (PNG, SVG, PDF) are made in the browser: see `pictures.js` and `svg_to_pdf.js`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from skillviz.analysis.readable_table import ReadableTable, as_stored, latex, markdown
from skillviz.analysis.tables import csv_text
from skillviz.plots.theme import FONT, GROUND, INK, SOFT_INK
from skillviz.runs.run import Run
from skillviz.runs.store import Library
from skillviz.serving import visitor
from skillviz.serving.downloads import DOWNLOADS, Tab
from skillviz.show.bundle import bundle, parts_stamp, stored_bytes
from skillviz.show.table_words import in_words
from skillviz.ui import cache

NAME = "skillviz_pictures"
HTML = """
<div class="pictures">
  <button type="button" value="png">Picture (PNG)</button>
  <button type="button" value="svg">Picture (SVG)</button>
  <button type="button" value="pdf">Picture (PDF)</button>
</div>
<p role="status"></p>
"""
MOST_ZIPPED = 256 << 20  # bytes of stored files, because the zip is made in memory
MOST_OF_VISITOR = 50  # runs in a zip for a remote visitor, which take some seconds of processor time
MODULE = Path(__file__)  # the scripts and styles of pictures are in the same folder

_buttons = st.components.v2.component(
    NAME,
    html=HTML,
    css=MODULE.with_name("pictures.css").read_text(encoding="utf-8"),
    js="".join(MODULE.with_name(name).read_text(encoding="utf-8") for name in ("svg_to_pdf.js", "pictures.js")),
)


@dataclass(frozen=True)
class Heading:
    """The heading of an exported chart: its title, and the lines under it, such as the run's name."""

    title: str
    lines: tuple[str, ...] = ()


def csv(table: pd.DataFrame) -> bytes:
    """The table as CSV in UTF-8, at full precision."""
    return csv_text(table).encode("utf-8")


def table_buttons(
    table: pd.DataFrame,
    *,
    file: str,
    key: str,
    caption: str,
    label: str = "Table",
    words: Callable[[pd.DataFrame], ReadableTable] = in_words,
) -> None:
    """Draws three buttons that save the table: as CSV at full precision, and as Markdown and LaTeX for use in a text.

    `file` is the name without its extension; `words` makes the readable cells of Markdown and LaTeX.
    """
    kinds: tuple[tuple[str, str, str, Callable[[], bytes]], ...] = (
        ("CSV", "csv", "text/csv", lambda: csv(table)),
        ("Markdown", "md", "text/markdown", lambda: markdown(words(table)).encode("utf-8")),
        ("LaTeX", "tex", "application/x-tex", lambda: latex(words(table), caption).encode("utf-8")),
    )
    for kind, ending, mime, make in kinds:
        st.download_button(
            f"{label} ({kind})",
            make,
            f"{file}.{ending}",
            mime,
            key=f"{ending}.{key}",
            on_click="ignore",
            icon=":material/download:",
        )


def table_menu(
    table: pd.DataFrame,
    *,
    file: str,
    key: str,
    caption: str,
    label: str = "Table",
    words: Callable[[pd.DataFrame], ReadableTable] = as_stored,
) -> None:
    """Draws the menu of `table_buttons` for a table without a figure, filled while it is open."""
    menu = st.popover("Download table", icon=":material/download:", key=f"downloads.{key}", on_change="rerun")
    if menu.open:  # a page has several, and few are opened
        with menu:
            table_buttons(table, file=file, key=key, caption=caption, label=label, words=words)


def zip_button(
    label: str,
    runs: Sequence[Run],
    *,
    file: str,
    key: str,
    help: str,
    reports: Mapping[str, Callable[[], bytes]] | None = None,
) -> None:
    """Draws the button that saves these runs as one zip, made when it is pressed.

    `reports` maps a run's id to a function that makes its HTML report. No model is loaded, so that the file has no
    graft.
    """
    too_much = _too_much(runs)
    make = partial(_zipped, tuple(runs), dict(reports or {}), cache.library(), Tab()) if runs else b""
    st.download_button(
        label, make, f"{file}.zip", "application/zip", key=key, on_click="ignore", icon=":material/folder_zip:",
        help=too_much or help, disabled=not runs or bool(too_much),
    )  # fmt: skip


def _too_much(runs: Sequence[Run]) -> str:
    """The reason why these runs are too many for one zip; empty if they are not."""
    if len(runs) > MOST_OF_VISITOR and not visitor.is_local():
        return f"{len(runs):,} runs are too many for one file: at most {MOST_OF_VISITOR}. Choose fewer."
    size = stored_bytes(runs)
    if size > MOST_ZIPPED:
        return f"{size >> 20} MB are too many: at most {MOST_ZIPPED >> 20} fit here. Use `runs export` in a terminal."
    return ""


def _zipped(runs: Sequence[Run], reports: Mapping[str, Callable[[], bytes]], seen: Library, tab: Tab) -> bytes:
    """The zip. Without reports, which depend on other runs too, it is shared by all requests for the same runs."""
    key = None if reports else (*((str(run.path), run.record.finished) for run in runs), parts_stamp(runs, seen))
    return DOWNLOADS.get(key, tab, lambda file: bundle(runs, seen, file, reports=reports, grafts={}))


def report_button(label: str, report: Callable[[], bytes], *, file: str, key: str, help: str) -> None:
    """Draws the button that saves a report, which takes seconds to make."""
    st.download_button(
        label, partial(DOWNLOADS.get, None, Tab(), lambda out: out.write(report())), file, "text/html", key=key,
        on_click="ignore", icon=":material/article:", help=help,
    )  # fmt: skip


def html(figure: go.Figure, heading: Heading) -> bytes:
    """The figure as an HTML page that needs no network (plotly.js included: 4.8 MB), on white or near-black ground."""
    page = go.Figure(figure)
    below = "<br>".join(escape(line) for line in heading.lines)
    page.update_layout(
        title={"text": escape(heading.title), "subtitle": {"text": below}},
        margin={"t": 90 + 16 * len(heading.lines)},
        paper_bgcolor=ground(figure),
    )
    return page.to_html(include_plotlyjs=True, full_html=True).encode("utf-8")


def ground(figure: go.Figure) -> str:
    """Near-black if the figure's text is light, else white: an exported page has no theme behind it."""
    ink = str(figure.layout.template.layout.font.color or "#000000")
    return GROUND["dark" if int(ink.lstrip("#")[:2], 16) > 127 else "light"]


def file_name(*parts: str) -> str:
    """A file name for a download, from a run's id and a chart's name, without characters that file systems refuse."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(part for part in parts if part)).strip("-")


def plotly_config(name: str) -> dict[str, Any]:
    """The settings of plotly's toolbar: its camera saves `name` as PNG at twice the screen's resolution."""
    return {
        "displaylogo": False,
        "displayModeBar": "hover",
        "responsive": True,
        "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
        "toImageButtonOptions": {"format": "png", "filename": name, "scale": 2},
    }


def buttons(chart: str, *, file: str, heading: Heading, theme: str) -> None:
    """Draws the picture buttons of the chart with this widget key; `file` is a picture's name without its extension.

    A picture has the theme's background, and the heading above the chart; the chart itself has neither.
    """
    colors = {"ground": GROUND[theme], "ink": INK[theme], "softInk": SOFT_INK[theme], "font": FONT}
    words = {"title": heading.title, "lines": heading.lines}
    _buttons(key=f"pictures.{chart}", data={"chart": class_of(chart), "file": file, **words, **colors})


def class_of(key: str) -> str:
    """The CSS class that Streamlit gives to the element of a widget's key."""
    return "st-key-" + re.sub(r"[^a-zA-Z0-9_-]", "-", key.strip())
