"""Federated training by round: the task's metric of the server's model, or what the clients' messages reveal."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from skillviz.core import formats
from skillviz.plots.figure import blank, canvas, error_bars, ordered, require
from skillviz.plots.theme import LOCALIZERS, SOFT_INK, STATES, Style

COLUMNS = ("send", "round", "what", "value", "low", "high")
STYLES = {
    "full": Style("all values", STATES["finetuned"].color, "circle", "dash"),
    "region": Style("values in a region", STATES["grafted"].color, "diamond", "solid"),
    "random": Style("as many random values", LOCALIZERS["random"].color, "x", "dot"),
}
AXES = {"score": ("test metric, %", 100.0), "membership": ("membership AUC, index (0.5: chance)", 1.0)}
ROUND = "round, number"


def by_round(federated: pd.DataFrame, what: str = "score", *, theme: str = "light", height: int = 340) -> go.Figure:
    """One line per kind of message over the rounds, with 95% intervals; `federated` has one task of the table.

    `what` is a key of AXES. The membership of chance, 0.5, is a dotted line.
    """
    require(federated, COLUMNS, "federated")
    title, scale = AXES[what]
    rows = federated[(federated["what"] == what) & federated["value"].notna()]
    if rows.empty:
        return blank("No round of this study is stored here.", theme, height, ROUND, title)
    figure, kinds = canvas(theme, height, ROUND, title), ordered(rows["send"], STYLES)
    for place, kind in enumerate(kinds):
        line, style = rows[rows["send"] == kind].sort_values("round"), STYLES[kind]
        value, low, high = (scale * line[end].to_numpy(float) for end in ("value", "low", "high"))
        ends = [formats.interval(*pair, 1 if scale > 1 else 2, 1.0) for pair in zip(low, high, strict=True)]
        figure.add_trace(
            go.Scatter(
                x=line["round"] + 0.05 * (place - (len(kinds) - 1) / 2), y=value, name=style.title,
                mode="lines+markers", line=style.line(1.5), marker=style.marker(9), customdata=ends,
                error_y=error_bars(value, low, high, 1.5, 4), text=line["round"],
                hovertemplate=f"{style.title}, round %{{text}}<br>%{{y:.2f}} (%{{customdata}})<extra></extra>",
            )
        )  # fmt: skip
    if what == "membership":
        figure.add_hline(y=0.5, line={"color": SOFT_INK[theme], "width": 1, "dash": "dot"})
    figure.update_xaxes(tickvals=sorted(set(rows["round"])))
    return figure
