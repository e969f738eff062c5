"""What regions are made of: shares by layer and by module kind (paper, Figs. 9 and 10). Frames as in `region.py`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.plots.figure import blank, canvas
from skillviz.plots.region import LAYER, NOTHING, SHORT, cells, kinds_of, layer_name, layer_names
from skillviz.plots.theme import BAR, INK, Style, kind_style


def shares_by_layer(
    layers: pd.DataFrame, *, share_of: str = "region", theme: str = "light", height: int = 360
) -> go.Figure:
    """Share of the selected entries by layer, one line a module kind (paper, Fig. 9).

    `share_of="region"`: of all selected entries (all lines together sum to 100%). `share_of="kind"`: of the
    selected entries of that kind (each line sums to 100%), which shows small kinds too.
    """
    if share_of not in ("region", "kind"):
        raise ValueError(f"share_of={share_of!r} is not known; it is 'region' or 'kind'")
    y = "share of the region, %" if share_of == "region" else "share of the kind's entries, %"
    table = cells(layers)
    if table["selected"].sum() == 0:
        return blank(NOTHING, theme, height, LAYER, y)
    figure = canvas(theme, height, LAYER, y)
    names, whole = layer_names(table), int(table["selected"].sum())
    everything = Style("all kinds", INK[theme], "circle", "solid")
    groups = [(everything, table), *((kind_style(k), table[table["kind"] == k]) for k in kinds_of(table))]
    for style, rows in groups:
        counts = rows["selected"].groupby([layer_name(v) for v in rows["layer"]]).sum().reindex(names, fill_value=0)
        base = whole if share_of == "region" else int(counts.sum())
        if base > 0 and counts.sum() > 0:
            figure.add_trace(_layer_line(style, names, counts.to_numpy(), base))
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=names)
    figure.update_yaxes(rangemode="tozero")
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
    """Share of the selected entries by module kind, with the share a uniform region would have (paper, Fig. 10)."""
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
