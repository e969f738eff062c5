"""A chart as every page shows it: figure, alt text for screen readers, and a fold with help, downloads and table."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from plotly.basedatatypes import BaseFigure
from plotly.io import to_json

from skillviz.analysis import readable_table
from skillviz.core import formats
from skillviz.plots.as_text import as_lists
from skillviz.plots.restyle import enlarged, with_dark_marks
from skillviz.show import table_words
from skillviz.show.exhibit import MOST_EXHIBITS, Exhibit
from skillviz.show.glossary import about
from skillviz.ui import embed, exports, presenter, run_bar, script
from skillviz.ui.frame import theme as theme
from skillviz.ui.page_table import is_presented

_TOUCH = "skillviz_touch"

_mount = st.components.v2.component(
    _TOUCH, html="<span></span>", js=Path(__file__).with_name("touch.js").read_text(encoding="utf-8")
)

# the formats of table columns; other columns are shown unchanged
COLUMNS: dict[str, Any] = {
    "share": st.column_config.NumberColumn("share", format="%.3g"),
    **{
        name: st.column_config.NumberColumn(readable_table.title(name), format="%.3g")
        for name in ("density_ratio", "movement_share", "share_if_even")
    },
    "selected": st.column_config.NumberColumn("selected entries", format="localized"),
    "total": st.column_config.NumberColumn("all entries", format="localized"),
    "size": st.column_config.NumberColumn("size (entries)", format="localized"),
    "loss": st.column_config.NumberColumn("loss (nats)", format="%.4f"),
    "seconds": st.column_config.NumberColumn("seconds", format="%.1f"),
    "touched": st.column_config.NumberColumn("share touched", format="%.3g"),
    "n": st.column_config.NumberColumn("examples", format="localized"),
    "chance": st.column_config.NumberColumn("by chance", format="%.3g"),
    "iou": st.column_config.NumberColumn("IoU", format="%.4f"),
    "stage_task": st.column_config.Column("trained last"),
    "is_bias": st.column_config.CheckboxColumn("bias"),
    **{
        name: st.column_config.NumberColumn(name.replace("_", ", "), format="%.4f")
        for name in ("change", "change_low", "change_high")
    },
    **{name: st.column_config.NumberColumn(format="%.4f") for name in ("value", "low", "high")},
    **{name: st.column_config.NumberColumn(format="%.3f") for name in ("lower", "upper", "confidence", "accuracy")},
    **{name: st.column_config.NumberColumn(format="%.3g") for name in ("movement_l2", "movement_max", "movement_mean")},
}


Drawing: TypeAlias = "go.Figure | Exhibit"
"""The content of a chart: a figure, or an exhibit, whose figure is stored as bytes and read only when needed."""
CARTESIAN = {"scatter", "scattergl", "bar", "heatmap"}
AXIS = re.compile(r"[xy]axis\d*")
By = Literal["points", "box"]
FOLD = "Help, download, table"
DRAG = {"points": "pan", "box": "select"}
"""Streamlit's drag mode for selecting single marks or an area."""


def chart(
    of: Drawing,
    *,
    name: str,
    title: str,
    reads: str,
    alt: str,
    table: pd.DataFrame,
    run_id: str = "",
    help: str | None = None,
    under: tuple[str, ...] = (),
) -> None:
    """Draws a card. `reads` explains how to read the figure; `alt` describes it for users who cannot see it."""
    with st.container(border=True, height="stretch"):
        st.markdown(f"## {title}", help=help)
        st.plotly_chart(as_shown(of), **_settings(name, run_id, alt))
        _drew(name)
        below(of, name=name, title=title, reads=reads, table=table, run_id=run_id, under=under)


def as_shown(of: Drawing, by: By | None = None) -> Written:
    """The figure recolored for its theme, larger in presenter mode, and serialized so that it is drawn once.

    The result for an exhibit is cached for all visitors; a plain figure, such as a running job's, is not.
    """
    factors = presenter.factors_of(_figure(of)) if is_presented() else None
    return _of_exhibit(of, by, factors) if isinstance(of, Exhibit) else _written(of, by, factors)


@lru_cache(maxsize=MOST_EXHIBITS)
def _of_exhibit(exhibit: Exhibit, by: By | None, factors: tuple[float, float] | None) -> Written:
    return _written(exhibit.figure, by, factors)


def _written(figure: go.Figure, by: By | None, factors: tuple[float, float] | None) -> Written:
    marked = with_dark_marks(figure)
    return drawn_once(enlarged(marked, *factors) if factors else marked, by=by)


def _figure(of: Drawing) -> go.Figure:
    return of.figure if isinstance(of, Exhibit) else of


def show(exhibit: Exhibit, run_id: str = "", of: str = "") -> None:
    """Draws an exhibit as a card; `of` names its subject in downloads, if the run alone does not."""
    chart(
        exhibit,
        name=exhibit.name,
        title=exhibit.title,
        reads=exhibit.reads,
        alt=exhibit.alt,
        table=exhibit.table,
        run_id=run_id,
        help=about(*exhibit.words) if exhibit.words else None,
        under=(of or exhibit.of, exhibit.intervals),
    )


def alone(exhibit: Exhibit) -> None:
    """Draws the figure of an exhibit without its card and downloads, for a place inside another card."""
    st.plotly_chart(as_shown(exhibit), **_settings(exhibit.name, "", exhibit.alt))
    _drew(exhibit.name)


def selectable(
    of: Drawing, *, name: str, run_id: str, alt: str, on_select: Any, by: Literal["points", "box"] = "points"
) -> Any:
    """Draws a figure in which marks or an area can be selected, and returns the selection.

    `below` draws the row under it.
    """
    with st.container(key=f"touch-{name}"):
        _mount(key=f"{_TOUCH}.{name}", height=1)
    selected = st.plotly_chart(
        as_shown(of, by),
        on_select=on_select,
        selection_mode=by,
        **_settings(name, run_id, alt),
    )
    _drew(name)
    return selected


def _drew(name: str) -> None:
    embed.drew(name)
    script.first_figure_goes_ahead()


def below(
    of: Drawing,
    *,
    name: str,
    title: str,
    reads: str,
    table: pd.DataFrame,
    run_id: str = "",
    under: tuple[str, ...] = (),
) -> None:
    """Draws the folded row under a figure: how to read it, and downloads and its table, which are sent if it is open.

    Presenter mode leaves the row out. `under` are the lines below the run's name in a downloaded picture: the
    picture's subject and the kind of its intervals.
    """
    if is_presented():
        return
    fold = st.expander(FOLD, key=f"table.{name}", on_change="rerun")
    with fold:
        st.caption(f"How to read this: {formats.capital(reads)}")
        if fold.open:  # the browser loads the code for tables only if one is opened
            with st.container(horizontal=True):
                _downloads(of, name=name, title=title, table=table, run_id=run_id, under=under)
            st.dataframe(
                table_words.worded(table), hide_index=True, column_config=COLUMNS, placeholder="",
                alt=f"The numbers of: {title}",
            )  # fmt: skip
            st.caption("This figure alone in a frame, for a slide or a site, if the page draws it by itself:")
            st.code(embed.frame_of(name, title, _figure(of)), language="html", wrap_lines=True)


def _downloads(of: Drawing, *, name: str, title: str, table: pd.DataFrame, run_id: str, under: tuple[str, ...]) -> None:
    """Draws the buttons of the downloads; a file is made when its button is pressed."""
    stem = exports.file_name(run_id, name)
    caption = f"{title} ({run_id})" if run_id else title
    caption = ". ".join(filter(None, (caption, *under)))
    exports.table_buttons(table, file=stem, key=name, caption=caption)
    heading = exports.Heading(title, tuple(filter(None, (run_bar.name_of(run_id), *under))))
    st.download_button(
        "Chart (HTML, works offline)",
        lambda: exports.html(with_dark_marks(_figure(of)), heading),
        f"{stem}.html",
        "text/html",
        key=f"html.{name}",
        on_click="ignore",
        icon=":material/download:",
    )
    exports.buttons(_key(name), file=stem, heading=heading, theme=theme())


def _key(name: str) -> str:
    return f"chart.{name}"


def _settings(name: str, run_id: str, alt: str) -> dict[str, Any]:
    config = exports.plotly_config(exports.file_name(run_id, name))
    return {"key": _key(name), "theme": None, "width": "stretch", "config": config, "alt": alt}


class Written(BaseFigure):
    """A figure as the text that the browser gets, from which Streamlit's queries are answered.

    Streamlit would first copy and encode every part of a plotly figure, at each visit of a page.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def to_dict(self) -> dict[str, Any]:
        """The figure's parts, as a new dictionary that the caller may change."""
        parts: dict[str, Any] = json.loads(self._text)
        return parts


def drawn_once(figure: go.Figure, *, by: By | None = None) -> Written:
    """The figure as plain lists, with a hash of its content as revision; `by` is the kind of selection it allows."""
    plain: dict[str, Any] = as_lists(figure.to_dict())
    layout = plain["layout"] = without_template(plain.get("layout", {}), plain["data"])
    if by is not None:
        layout.setdefault("clickmode", "event+select" if by == "points" else "event")
        layout.setdefault("hovermode", "closest")
        layout["dragmode"] = layout.get("dragmode") or DRAG[by]
    content = to_json(plain, validate=False)  # the figure was validated before
    layout["datarevision"] = hashlib.md5(content.encode(), usedforsecurity=False).hexdigest()
    return Written(to_json(plain, validate=False))


def without_template(layout: dict[str, Any], traces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The layout with its template's values filled in; unchanged if the template has values that ours do not have."""
    template = layout.get("template", {})
    if template.keys() - {"layout"} or any(trace.get("type", "scatter") not in CARTESIAN for trace in traces):
        return layout
    ours = {name: value for name, value in layout.items() if name != "template"}
    axes = {"xaxis", "yaxis", *filter(AXIS.fullmatch, ours)}
    axes |= {f"{letter}axis{trace.get(f'{letter}axis', letter)[1:]}" for trace in traces for letter in "xy"}
    defaults = dict(template.get("layout", {}))
    of_axes = {letter: defaults.pop(f"{letter}axis", {}) for letter in "xy"}
    return _merged({**defaults, **{axis: of_axes[axis[0]] for axis in sorted(axes)}}, ours)


def _merged(defaults: Any, own: Any) -> Any:
    if not isinstance(defaults, dict) or not isinstance(own, dict):
        return own
    return {**defaults, **{name: _merged(defaults.get(name), value) for name, value in own.items()}}
