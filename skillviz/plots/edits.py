"""A sentence beside an edited one: each model's probability of one class, before and after the edit."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from skillviz.plots.figure import blank, canvas, ordered, require
from skillviz.plots.theme import INK, STATES, state_style

COLUMNS = ("state", "before", "after")


def edited_probability(
    changes: pd.DataFrame, label: str, *, theme: str = "light", height: int | None = None
) -> go.Figure:
    """The probability of one class, `label`, in each model: a hollow mark before the edit, a filled one after it.

    `changes`: state, before, after (probabilities, 0..1).
    """
    require(changes, COLUMNS, "changes")
    states, title = ordered(changes["state"], STATES), f"probability of “{label}”, %"
    if not states:
        return blank("No sentence has been edited yet.", theme, height or 200, title, "state")
    figure = canvas(theme, height or 110 + 44 * len(states), title, "state")
    for place, state in enumerate(states):
        row, style = changes[changes["state"] == state].iloc[0], state_style(state)
        before, after = 100 * float(row["before"]), 100 * float(row["after"])
        figure.add_annotation(
            x=after, y=place, ax=before, ay=place, xref="x", yref="y", axref="x", ayref="y", showarrow=True,
            arrowhead=3, arrowwidth=2, arrowcolor=INK[theme], standoff=6, startstandoff=6, opacity=0.6,
        )  # fmt: skip
        for x, when in ((before, "original"), (after, "edited")):
            marker = style.marker(11)
            symbol = marker["symbol"].removesuffix("-open")
            marker["symbol"] = f"{symbol}-open" if when == "original" else symbol
            figure.add_trace(
                go.Scatter(
                    x=[x],
                    y=[place],
                    mode="markers",
                    name=style.title,
                    marker=marker,
                    showlegend=False,
                    hovertemplate=f"<b>{style.title}</b><br>{when}: %{{x:.1f}}%<extra></extra>",
                )
            )
    names = [state_style(state).title for state in states]
    figure.update_yaxes(tickvals=list(range(len(states))), ticktext=names, range=[len(states) - 0.5, -0.5])
    figure.update_xaxes(range=[-3, 103], showgrid=True)
    return figure
