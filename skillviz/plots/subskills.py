"""The sub-skills of a region: their stability beside random controls by their number, and their loadings on parts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.plots.cells import printed, shades, shown
from skillviz.plots.figure import blank, canvas, error_bars, require
from skillviz.plots.theme import INK, SOFT_INK

STABILITY = ("draw", "count", "value", "low", "high")
LOADINGS = ("subskill", "name", "value")
NUMBER, COSINE = "sub-skills, number", "cosine of loadings, number 0–1"
PART, SUBSKILL = "part", "sub-skill"
ROW, LEAST = 24, 90  # pixels of a row, and of axes
LONGEST = 30  # characters of a part's name on the axis


def stability_by_count(table: pd.DataFrame, *, theme: str = "light", height: int = 340) -> go.Figure:
    """One line for the region (draw 0) and one per control draw: the stability, 0 to 1, by the number of sub-skills."""
    require(table, STABILITY, "table")
    if table.empty:
        return blank("The sub-skills have not been compared.", theme, height, NUMBER, COSINE)
    figure = canvas(theme, height, NUMBER, COSINE)
    for draw in sorted(table["draw"].unique(), reverse=True):
        rows = table[table["draw"] == draw]
        name, ink, symbol = (
            (f"random control {draw}", SOFT_INK[theme], "circle-open") if draw else ("region", INK[theme], "diamond")
        )
        value, low, high = (rows[column].to_numpy(float) for column in ("value", "low", "high"))
        figure.add_trace(
            go.Scatter(
                x=rows["count"].to_numpy(float) + 0.06 * draw, y=value, mode="lines+markers", name=name,
                line={"color": ink, "width": 1 if draw else 2.5}, marker={"color": ink, "symbol": symbol, "size": 9},
                error_y=error_bars(value, low, high, 1 if draw else 2, 4),
                hovertext=[
                    f"{name}, {count} sub-skills<br>{v:.3f} ({a:.3f}–{b:.3f})"
                    for count, v, a, b in zip(rows["count"], value, low, high, strict=True)
                ],
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )  # fmt: skip
    figure.update_xaxes(tickvals=sorted(table["count"].unique()))
    return figure


def loading_map(table: pd.DataFrame, *, theme: str = "light", height: int | None = None) -> go.Figure:
    """Part by sub-skill: the share of each sub-skill's loadings that a part has, in percent, in print and in color.

    Rows have the order of the table. Parts of less than half a percent are not printed.
    """
    require(table, LOADINGS, "table")
    if table.empty:
        return blank("No sub-skill has been found.", theme, height or 320, SUBSKILL, PART)
    rows, columns = list(dict.fromkeys(table["name"])), sorted(table["subskill"].unique())
    z = 100 * table.pivot(index="name", columns="subskill", values="value").reindex(rows)[columns].to_numpy(float)
    figure = canvas(theme, height or LEAST + ROW * len(rows), SUBSKILL, PART)
    texts = [[f"{value:.0f}%" if value >= 0.5 else "" for value in line] for line in z]
    hover = [
        [
            f"<b>{shown(name, 80)}</b><br>{value:.1f}% of sub-skill {number}"
            for number, value in zip(columns, line, strict=True)
        ]
        for name, line in zip(rows, z, strict=True)
    ]  # fmt: skip
    printed(figure, z, texts, shades(theme), 0.0, float(np.nanmax(z)) or 1.0, size=12, hover=hover, gap=2)
    figure.update_xaxes(
        tickvals=list(range(len(columns))), ticktext=[str(number) for number in columns],
        range=[-0.5, len(columns) - 0.5], showline=False,
    )  # fmt: skip
    figure.update_yaxes(
        tickvals=list(range(len(rows))), ticktext=[shown(name, LONGEST) for name in rows],
        range=[len(rows) - 0.5, -0.5], showgrid=False,
    )  # fmt: skip
    figure.update_layout(showlegend=False)
    return figure
