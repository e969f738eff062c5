"""Attributions of a decision: the contribution of every token, by model, and of every layer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from skillviz.plots.cells import diverging, printed, shown
from skillviz.plots.figure import BAR_ROOM, blank, canvas, colour_bar, ordered, require
from skillviz.plots.theme import SOFT_INK, STATES, state_style, template

TOKENS = ("state", "position", "token", "special", "value")
FLOW = ("layer", "position", "token", "special", "value")
PARTS = ("state", "part", "layer", "value")
LAYER = "layer (first = 0)"
SCALE = "for (+) or against (−) the class, nats"
NOTHING = "No example has been explained yet."
ROW, HEADING = 22, 18  # pixels of a token, and of a column's name
MOST_PRINTED = 7  # columns whose numbers still fit a narrow page; with more, only a minus is printed
SEEN = 0.1  # share of the scale's end from which a cell's color is visible


def token_values(tokens: pd.DataFrame, *, theme: str = "light", height: int | None = None) -> go.Figure:
    """One row per token in reading order, one column per state: the token's contribution to the class's log-odds.

    `tokens`: state, position (from 0), token, special, value (nats). All states share one color scale, and every cell
    has its number. Special tokens are in parentheses, without a number: they are the same in the baseline.
    """
    require(tokens, TOKENS, "attributions")
    states = ordered(tokens["state"], STATES)
    if not states:
        return blank(NOTHING, theme, height or 240, "state", "token")
    columns = [state_style(state).title for state in states]
    table = tokens.assign(
        column=[states.index(s) for s in tokens["state"]],
        value=tokens["value"].where(~tokens["special"].astype(bool)),
    )
    figure = _token_cells(table, columns, "state", largest(tokens["value"]), theme, height)
    figure.update_layout(margin_t=BAR_ROOM + HEADING)
    figure.update_annotations(yshift=BAR_ROOM + HEADING, selector={"name": "colour bar"})
    for place, name in enumerate(columns):  # on top too: the axis is off-screen if a sentence is long
        font = {"size": 12, "color": SOFT_INK[theme]}
        figure.add_annotation(
            text=name, x=place, y=1, yref="paper", yanchor="bottom", showarrow=False, font=font, name="heading"
        )
    return figure


def token_layers(
    flow: pd.DataFrame, *, limit: float | None = None, theme: str = "light", height: int | None = None
) -> go.Figure:
    """One row per token, one column per layer: the evidence for the class at each token after each layer, in one state.

    Special tokens are included: a model collects information on the other tokens there. `flow`: layer, position, token,
    special, value (nats). `limit` is the end of the color scale, so that the states' figures can be compared; by
    default, the largest value here.
    """
    require(flow, FLOW, "conductance by token")
    layers = sorted({int(layer) for layer in flow["layer"]})
    if not layers:
        return blank(NOTHING, theme, height or 240, LAYER, "token")
    table = flow.assign(column=[layers.index(int(layer)) for layer in flow["layer"]])
    return _token_cells(table, [str(n) for n in layers], LAYER, limit or largest(flow["value"]), theme, height)


def largest(values: pd.Series) -> float:
    """Return the largest absolute value, the end of a symmetric scale; 1 if all are zero."""
    return float(np.nanmax(np.abs(values.to_numpy(float)), initial=0.0)) or 1.0


def _token_cells(
    table: pd.DataFrame, columns: list[str], x: str, limit: float, theme: str, height: int | None
) -> go.Figure:
    """Draw tokens by columns; `table` has `column` (number from 0) beside position, token, special and value."""
    places = table.drop_duplicates("position").sort_values("position")
    rows = {int(p): i for i, p in enumerate(places["position"])}
    z = np.full((len(rows), len(columns)), np.nan)
    z[[rows[int(p)] for p in table["position"]], table["column"].to_numpy(int)] = table["value"].to_numpy(float)
    figure = canvas(theme, height or BAR_ROOM + HEADING + 60 + ROW * len(rows), x, "token")
    fits = len(columns) <= MOST_PRINTED
    words = [[signed(value, limit) if fits else "−" if value < -SEEN * limit else "" for value in row] for row in z]
    tokens = places["token"].tolist()
    hover = [
        [
            f"<b>{shown(token, 40)}</b><br>{name}: {signed(v, limit, 3)} nats"
            for name, v in zip(columns, row, strict=True)
        ]
        for token, row in zip(tokens, z, strict=True)
    ]
    printed(figure, z, words, diverging(theme), -limit, limit, size=11, hover=hover)
    _token_axes(figure, places, columns)
    _scale(figure, limit, theme)
    return figure


def signed(value: float, limit: float, more: int = 0) -> str:
    """A value with its sign and the decimals that the scale's end needs: `+1.25`, `−0.03`; `0` for zero."""
    if not np.isfinite(value):
        return ""
    digits = more or (1 if limit >= 10 else 2 if limit >= 0.1 else 4)
    text = f"{abs(value):.{digits}f}"
    return "0" if not float(text) else ("−" if value < 0 else "+") + text


def _token_axes(figure: go.Figure, places: pd.DataFrame, columns: list[str]) -> None:
    special = places["special"].astype(bool)
    names = [f"<i>({shown(t, 10)})</i>" if s else shown(t, 12) for t, s in zip(places["token"], special, strict=True)]
    n = len(names)
    figure.update_yaxes(tickvals=list(range(n)), ticktext=names, range=[n - 0.5, -0.5], showgrid=False)
    step = max(1, len(columns) // 12)
    figure.update_xaxes(
        tickvals=list(range(0, len(columns), step)),
        ticktext=columns[::step],
        range=[-0.5, len(columns) - 0.5],
        showline=False,
        tickangle=0,
    )


def _scale(figure: go.Figure, limit: float, theme: str) -> None:
    """Add the figure's one color scale, attached to a marker without a position."""
    ends = {"cmin": -limit, "cmax": limit, "colorscale": [list(stop) for stop in diverging(theme)]}
    bar = colour_bar(figure, SCALE) | {"nticks": 5, "outlinewidth": 1, "outlinecolor": SOFT_INK[theme]}
    empty: list[None] = [None]
    figure.add_trace(
        go.Scatter(x=empty, y=empty, mode="markers", name="scale", showlegend=False, hoverinfo="skip",
                   marker={**ends, "color": [0.0], "showscale": True, "colorbar": bar})
    )  # fmt: skip


def layer_parts(parts: pd.DataFrame, *, theme: str = "light", height: int | None = None) -> go.Figure:
    """The effect of each layer's modules on the class: one panel per part, one line per state, over the layers.

    `parts`: state, part (attention output, MLP out), layer (number from 0), value (nats, summed over tokens).
    """
    require(parts, PARTS, "conductance by part")
    names, states = ordered(parts["part"], ("attention output", "MLP out")), ordered(parts["state"], STATES)
    if not names:
        return blank(NOTHING, theme, height or 300, LAYER, "added, nats")
    tall = height or 60 + 210 * len(names)
    figure = make_subplots(rows=len(names), cols=1, shared_xaxes=True, vertical_spacing=24 / tall)
    figure.update_layout(template=template(theme), height=tall)
    limit = 1.08 * largest(parts["value"])
    for row, name in enumerate(names, start=1):
        for state in states:
            hit = parts[(parts["part"] == name) & (parts["state"] == state)].sort_values("layer")
            style = state_style(state)
            figure.add_trace(
                go.Scatter(
                    x=hit["layer"],
                    y=hit["value"],
                    mode="lines+markers",
                    name=style.title,
                    legendgroup=state,
                    showlegend=row == 1,
                    line=style.line(1.5),
                    marker=style.marker(9),
                    hovertemplate=f"<b>{style.title}</b><br>layer %{{x}}, {name}<br>%{{y:+.3f}} nats<extra></extra>",
                ),
                row=row,
                col=1,
            )
        figure.update_yaxes(title_text=f"{name}, nats", range=[-limit, limit], row=row, col=1)
        figure.add_hline(y=0, line={"color": SOFT_INK[theme], "width": 1}, layer="below", row=row, col=1)
    layers = sorted({int(layer) for layer in parts["layer"]})
    ticks = layers[:: max(1, len(layers) // 12)]
    figure.update_xaxes(tickvals=ticks, range=[layers[0] - 0.4, layers[-1] + 0.4])
    figure.update_xaxes(title_text=LAYER, row=len(names), col=1)
    return figure
