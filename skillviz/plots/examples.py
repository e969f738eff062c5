"""Single examples: two models' confidence in the true class, and the states' probabilities for one example."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from skillviz.plots.cells import shown
from skillviz.plots.figure import blank, canvas, ordered, require
from skillviz.plots.theme import INK, SOFT_INK, STATES, Style, state_style

COLUMNS = ("example_id", "case", "finetuned", "grafted", "shown", "words")
PROBABILITIES = ("state", "class", "probability")
# The color and marker of the model that alone is right, or gives the reference more probability; other colors if both
# are alike.
CASES = {
    "both": Style("both right", "#6B7280", "circle-open", "solid"),
    "finetuned": Style("only fine-tuned right", STATES["finetuned"].color, "circle", "solid"),
    "grafted": Style("only grafted right", STATES["grafted"].color, "diamond", "solid"),
    "neither": Style("both wrong", "#7F4FA8", "x", "solid"),
    "likelier_finetuned": Style("likelier by fine-tuned", STATES["finetuned"].color, "circle", "solid"),
    "likelier_grafted": Style("likelier by grafted", STATES["grafted"].color, "diamond", "solid"),
    "equal": Style("equally likely", "#6B7280", "circle-open", "solid"),
}
FACTORS = {"confidence": 100.0, "margin": 1.0, "per_token": 100.0}
"""The factors from the numbers of a measure to the numbers on its axis."""
DIGITS = 3  # decimals of a position in percent or nats
PLACES = 200  # along an axis: closer marks cover each other
MANY = 3000  # number of marks from which on the browser draws them with WebGL
NOTHING = "No example passes the filters."


def confidence_scatter(
    examples: pd.DataFrame,
    measure: str = "confidence",
    unit: str = "confidence, %",
    *,
    chosen: str | None = None,
    framed: tuple[float, float, float, float] | None = None,
    drags: bool = False,
    theme: str = "light",
    height: int = 460,
) -> go.Figure:
    """Each example by the fine-tuned and the grafted model's score for its right answer, in the given unit.

    Points can be selected.

    `examples`: example_id, case (a key of CASES), finetuned and grafted (confidence 0..1, or margin in nats), shown
    (False: drawn faint, as context), words (the hover text). Examples of a case in the same cell of a PLACES x PLACES
    grid share a mark, the first example's. A mark's customdata is its example_id; `chosen` is ringed, and `framed`
    (left, right, bottom, top, in the units of the frame) is drawn. With `drags` the mouse selects an area.
    """
    require(examples, COLUMNS, "examples")
    factor = FACTORS[measure]
    x, y = (f"{state_style(s).title}: {unit}" for s in ("finetuned", "grafted"))
    rows = examples[examples["shown"].astype(bool)]
    if rows.empty:
        return blank(NOTHING, theme, height, x, y)
    figure = canvas(theme, height, x, y)
    low, high = (0.0, 1.0) if measure != "margin" else _reach(examples)
    _guides(figure, low, high, measure, factor, theme)
    step = (high - low) / PLACES or 1.0
    figure.add_trace(_others(_marks(examples[~examples["shown"].astype(bool)], step), factor, theme))
    marks = {case: _marks(rows[rows["case"] == case], step) for case in ordered(rows["case"], CASES)}
    for case, of_case in marks.items():
        figure.add_trace(_points(of_case, case, unit, factor, sum(map(len, marks.values()))))
    if chosen is not None:
        figure.add_trace(_ring(examples[examples["example_id"] == chosen], factor, theme))
    if framed is not None:
        left, right, bottom, top = (factor * end for end in framed)
        edge = {"color": INK[theme], "width": 1.5, "dash": "4px,3px"}
        figure.add_shape(type="rect", x0=left, x1=right, y0=bottom, y1=top, line=edge)
    figure.update_xaxes(showgrid=True)
    figure.update_layout(legend={"font": {"size": 11}}, dragmode="select" if drags else None)
    return figure


def _reach(examples: pd.DataFrame) -> tuple[float, float]:
    """Return the lowest and the highest value of both models."""
    values = examples[["finetuned", "grafted"]].to_numpy(float)
    return float(np.nanmin(values)), float(np.nanmax(values))


def _marks(rows: pd.DataFrame, step: float) -> pd.DataFrame:
    """Return the first example of each grid cell of width `step`, with the number of examples in the cell as `here`."""
    place = [(rows[state].astype(float) / step).round() for state in ("finetuned", "grafted")]
    here = rows.groupby(place, dropna=False)["example_id"].transform("size")
    return rows.assign(here=here)[~pd.concat(place, axis=1).duplicated()]


def _points(rows: pd.DataFrame, case: str, unit: str, factor: float, total: int) -> go.Scatter | go.Scattergl:
    style = CASES[case]
    tuned, graft = (state_style(state).title for state in ("finetuned", "grafted"))
    kind = go.Scatter if total <= MANY else go.Scattergl
    words = (text + (f"<br>and {n - 1:,} more here" if n > 1 else "") for text, n in rows[["words", "here"]].to_numpy())
    return kind(
        x=_places(rows, "finetuned", factor),
        y=_places(rows, "grafted", factor),
        mode="markers",
        name=f"{style.title} ({rows['here'].sum():,})",
        marker=style.marker(5 if case == "both" else 8),
        unselected={"marker": {"opacity": 1}},
        customdata=rows["example_id"].tolist(),
        hovertext=list(words),
        hovertemplate=f"<b>%{{customdata}}</b><br>%{{hovertext}}<br>{unit}: {tuned} %{{x:.1f}}, {graft} %{{y:.1f}}"
        "<extra></extra>",
    )


def _places(rows: pd.DataFrame, state: str, factor: float) -> np.ndarray:
    """Return the marks' positions, no finer than a screen can show: more digits make the page larger."""
    return (factor * rows[state].to_numpy()).round(DIGITS)


def _others(rows: pd.DataFrame, factor: float, theme: str) -> go.Scatter | go.Scattergl:
    kind = go.Scatter if len(rows) <= MANY else go.Scattergl
    return kind(
        x=_places(rows, "finetuned", factor),
        y=_places(rows, "grafted", factor),
        mode="markers",
        name="filtered out",
        showlegend=False,
        marker={"size": 3, "color": SOFT_INK[theme], "opacity": 0.35},
        hoverinfo="skip",
    )


def _ring(rows: pd.DataFrame, factor: float, theme: str) -> go.Scatter:
    return go.Scatter(
        x=factor * rows["finetuned"],
        y=factor * rows["grafted"],
        mode="markers",
        name="chosen",
        cliponaxis=False,
        marker={"symbol": "circle-open", "size": 18, "color": INK[theme], "line": {"width": 3, "color": INK[theme]}},
        hoverinfo="skip",
    )


def _guides(figure: go.Figure, low: float, high: float, measure: str, factor: float, theme: str) -> None:
    """Add the diagonal of equal values, and for margins the lines between right and wrong."""
    line = {"color": SOFT_INK[theme], "width": 1.5, "dash": "2px,3px"}
    ends = [factor * low, factor * high]
    figure.add_trace(
        go.Scatter(x=ends, y=ends, mode="lines", line=line, name="equal", showlegend=False, hoverinfo="skip")
    )
    if measure == "margin":
        figure.add_hline(y=0, line={**line, "dash": "solid", "width": 1}, layer="below")
        figure.add_vline(x=0, line={**line, "dash": "solid", "width": 1}, layer="below")
        return
    figure.update_xaxes(range=[-3, 103])
    figure.update_yaxes(range=[-3, 103])


def class_probabilities(
    probabilities: pd.DataFrame,
    labels: Sequence[str],
    *,
    true: int | None = None,
    right: str = "true class",
    one: str = "class",
    theme: str = "light",
    height: int | None = None,
) -> go.Figure:
    """The probability of every class for one example, one mark per state.

    `probabilities`: state, class (number from 0), probability (0..1). `true` is the class of the label. It is marked as
    `right`; `one` is the title of the axis.
    """
    require(probabilities, PROBABILITIES, "probabilities")
    states = ordered(probabilities["state"], STATES)
    if not states:
        return blank("No sentence has been scored yet.", theme, height or 220, "probability, %", one)
    n = len(labels)
    figure = canvas(theme, height or 100 + n * (44 if n <= 8 else 30), "probability, %", one)
    for number, state in enumerate(states):
        rows = probabilities[probabilities["state"] == state].sort_values("class")
        style = state_style(state)
        figure.add_trace(
            go.Scatter(
                x=100 * rows["probability"],
                y=rows["class"].to_numpy(float) + (number - (len(states) - 1) / 2) * 0.24,
                mode="markers",
                name=style.title,
                marker=style.marker(10),
                customdata=[shown(labels[int(c)], 40) for c in rows["class"]],
                hovertemplate=f"<b>{style.title}</b><br>%{{customdata}}: %{{x:.1f}}%<extra></extra>",
            )
        )
    names = [shown(name) + (f"<br>{right}" if i == true else "") for i, name in enumerate(labels)]
    figure.update_yaxes(tickvals=list(range(n)), ticktext=names, range=[n - 0.5, -0.5], showgrid=True)
    figure.update_xaxes(range=[-3, 103], showgrid=True)
    return figure
