"""The composition of regions: shares by layer and by module kind (paper, Figs. 9 and 10). Frames as in `region.py`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.plots.figure import blank, canvas
from skillviz.plots.references import name_category_ends
from skillviz.plots.region import LAYER, NOTHING, SHORT, cells, kinds_of, layer_name, layer_names
from skillviz.plots.theme import BAR, INK, Style, kind_style

KINDS = 4  # kinds of modules that have their own line


def shares_by_layer(layers: pd.DataFrame, *, theme: str = "light", height: int = 360) -> go.Figure:
    """Share of the selected entries by layer (paper, Fig. 9), one line for all and one for each common kind.

    The KINDS kinds of modules with the most entries have a line. A line sums to 100% and is named at its end.
    """
    y = "share of the kind's entries, %"
    table = cells(layers)
    selected = table.groupby("kind")["selected"].sum()
    if selected.sum() == 0:
        return blank(NOTHING, theme, height, LAYER, y)
    figure, names = canvas(theme, height, LAYER, y), layer_names(table)
    everything = Style("all kinds", INK[theme], "hourglass", "solid")  # a marker that no kind of the table has
    largest = selected[selected > 0].nlargest(KINDS).index
    kinds = [kind for kind in kinds_of(table) if kind in largest]
    groups = [(everything, table), *((kind_style(k), table[table["kind"] == k]) for k in kinds)]
    for style, rows in groups:
        counts = rows["selected"].groupby([layer_name(v) for v in rows["layer"]]).sum().reindex(names, fill_value=0)
        figure.add_trace(_layer_line(style, names, counts.to_numpy(), int(counts.sum())))
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=names, range=[-0.4, len(names) - 0.8])
    figure.update_yaxes(range=[0, 1.06 * max(max(line.y) for line in figure.data)])
    name_category_ends(figure)
    return figure


def _layer_line(style: Style, names: list[str], counts: np.ndarray, base: int) -> go.Scatter:
    return go.Scatter(
        x=names,
        y=100 * counts / base,
        mode="lines+markers",
        name=style.title,
        line=style.line(),
        marker=style.marker(7),
        customdata=counts,
        hovertemplate=f"<b>{style.title}</b>, layer %{{x}}<br>%{{y:.1f}}%<br>%{{customdata:,}} entries<extra></extra>",
    )


def shares_by_kind(layers: pd.DataFrame, *, theme: str = "light", height: int | None = None) -> go.Figure:
    """Share of the selected entries by module kind, with the share in a uniform region (paper, Fig. 10)."""
    x, y = "share of the region, %", "module kind"
    table = cells(layers)
    if table["selected"].sum() == 0:
        return blank(NOTHING, theme, height or 320, x, y)
    kinds = kinds_of(table)
    sums = table.groupby("kind")[["selected", "total"]].sum().reindex(kinds)
    share, fair = (100 * sums[c] / sums[c].sum() for c in ("selected", "total"))
    words = [SHORT.get(k, k) for k in kinds]
    hover = [
        f"{s:,} of {t:,} entries, {a / b:.2g} × the average density"
        for s, t, a, b in zip(sums["selected"], sums["total"], share, fair, strict=True)
    ]
    figure = canvas(theme, height or 130 + 28 * len(kinds), x, y)
    figure.add_trace(
        go.Bar(
            x=share,
            y=words,
            orientation="h",
            name="share of the region",
            hovertext=hover,
            marker={"color": BAR, "line": {"width": 0}},
            hovertemplate="<b>%{y}</b><br>%{x:.1f}% of the region<br>%{hovertext}<extra></extra>",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=fair,
            y=words,
            mode="markers",
            name="if spread evenly (uniform)",
            marker={"symbol": "line-ns", "size": 20, "line": {"color": INK[theme], "width": 2.5}},
            hovertemplate="<b>%{y}</b><br>uniform: %{x:.1f}%<extra></extra>",
        )
    )
    figure.update_yaxes(autorange="reversed", showgrid=False, tickmode="linear", dtick=1, ticklabelstandoff=5)
    figure.update_xaxes(showgrid=True, rangemode="tozero")
    return figure
