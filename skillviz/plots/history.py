"""The search progress: the loss and the entries switched on and off, step by step."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from skillviz.plots.figure import blank, ordered, require
from skillviz.plots.theme import LOCALIZERS, SOFT_INK, localizer_style, template

COLUMNS = ("localizer", "step", "loss", "size", "added", "removed")


def search_history(history: pd.DataFrame, *, theme: str = "light", height: int = 420) -> go.Figure:
    """Two stacked panels that share the step axis: training loss; entries switched on (up) and off (down).

    `history` has the columns of history.parquet: localizer, step, loss (nats), size, added, removed (counts). Raises
    ValueError if it mixes searches of one localizer for several target sizes.
    """
    require(history, COLUMNS, "history")
    if "target" in history and (history.groupby("localizer")["target"].nunique() > 1).any():
        raise ValueError(
            "history: choose one target size a localizer; given: "
            + ", ".join(f"{t:,}" for t in sorted(set(history["target"])))
        )
    if history.empty:
        return blank("This localizer has no steps to show.", theme, height, "step, number", "training loss, nats")
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08, row_heights=[0.5, 0.5])
    figure.update_layout(template=template(theme), height=height, barmode="relative")
    names = ordered(history["localizer"], LOCALIZERS)
    for name in names:
        rows = history[history["localizer"] == name].sort_values("step")
        figure.add_trace(_loss(name, rows, len(names) == 1), row=1, col=1)
        figure.add_trace(_switched(name, rows, "added", len(names) == 1), row=2, col=1)
        figure.add_trace(_switched(name, rows, "removed", len(names) == 1), row=2, col=1)
    figure.add_hline(y=0, line={"color": SOFT_INK[theme], "width": 1}, row=2, col=1)
    figure.update_yaxes(title_text="training loss, nats", row=1, col=1)
    figure.update_yaxes(title_text="on / off, count", row=2, col=1)
    figure.update_xaxes(title_text="step, number", row=2, col=1)
    return figure


def _loss(name: str, rows: pd.DataFrame, alone: bool) -> go.Scatter:
    style = localizer_style(name)
    return go.Scatter(
        x=rows["step"],
        y=rows["loss"],
        mode="lines+markers",
        name="loss" if alone else style.title,
        legendgroup=None if alone else name,
        line=style.line(),
        marker=style.marker(5),
        customdata=rows["size"],
        hovertemplate=f"<b>{style.title}</b>, step %{{x}}<br>loss %{{y:.3f}} nats<br>"
        "region of %{customdata:,} entries<extra></extra>",
    )


def _switched(name: str, rows: pd.DataFrame, column: str, alone: bool) -> go.Bar:
    """Return bars up for entries switched on, or down and hatched for entries switched off."""
    style, up = localizer_style(name), column == "added"
    word = "switched on" if up else "switched off"
    pattern = {} if up else {"shape": "/", "fgcolor": style.color, "bgcolor": "rgba(0,0,0,0)", "size": 5}
    return go.Bar(
        x=rows["step"],
        y=rows[column] * (1 if up else -1),
        name=word,
        legendgroup=None if alone else name,
        showlegend=alone,
        offsetgroup=name,
        customdata=rows[column],
        marker={"color": style.color, "line": {"color": style.color, "width": 1}, "pattern": pattern},
        hovertemplate=f"<b>{style.title}</b>, step %{{x}}<br>%{{customdata:,}} {word}<extra></extra>",
    )
