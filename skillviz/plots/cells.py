"""Cells with printed numbers: the color helps, but is not necessary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.colors import get_colorscale

from skillviz.plots.theme import BAR, DENSITY, INK

AGAINST = {"light": "#5B8DE8", "dark": "#4A7BDC"}
FOR = {"light": "#8A4B00", "dark": "#F0B04A"}
"""Blue and ochre: distinguishable for color-blind readers, and in gray, because ochre is further from the neutral
color."""
NEUTRAL = {"light": "#EBEDF1", "dark": "#3B424E"}
"""The start or turning point of a scale: not the background color, so that a cell there is still visible."""
INKS = ("#000000", "#FFFFFF")
Scale = list[tuple[float, str]]
CIVIDIS: Scale = [(float(place), str(colour)) for place, colour in get_colorscale(DENSITY)]


def shades(theme: str) -> Scale:
    """Return the scale from the neutral color (0) to a full one (1)."""
    return [(0.0, NEUTRAL[theme]), (1.0, BAR)]


def diverging(theme: str) -> Scale:
    """Return the scale from against (0) over the neutral color (0.5) to for (1)."""
    return [(0.0, AGAINST[theme]), (0.5, NEUTRAL[theme]), (1.0, FOR[theme])]


def name_columns(figure: go.Figure, names: Sequence[str], **more: Any) -> None:
    """Set the x axis of a map: a name under each column, slanted on a phone so that it ends there; `more` are further
    fields of the axis."""
    figure.update_xaxes(
        tickvals=list(range(len(names))), ticktext=list(names), range=[-0.5, len(names) - 0.5], showline=False,
        autotickangles=[0, -60, -90], **more,
    )  # fmt: skip


def matrix(table: pd.DataFrame, keys: tuple[str, str], rows: list[str], columns: list[str], values: str) -> np.ndarray:
    """Return one column of a long table as float64 [row, column], by its two `keys`; NaN for missing pairs."""
    square = table.pivot(index=keys[0], columns=keys[1], values=values)
    return square.reindex(index=rows, columns=columns).to_numpy(float)


def printed(figure: go.Figure, z: np.ndarray, words: Sequence[Sequence[str]], scale: Scale, low: float, high: float,
            *, size: int, hover: Sequence[Sequence[str]], gap: int = 1) -> None:  # fmt: skip
    """Add a heatmap of z [row, column] between low and high, and `words` on its cells in a legible color.

    Cells of NaN are left empty. Columns are at 0, 1, ... on x, rows at 0, 1, ... on y.
    """
    figure.add_trace(
        go.Heatmap(
            z=z,
            colorscale=[list(stop) for stop in scale],
            zmin=low,
            zmax=high,
            coloraxis=None,
            showscale=False,
            xgap=gap,
            ygap=gap,
            customdata=hover,
            hovertemplate="%{customdata}<extra></extra>",
            name="cells",
        )
    )
    rows, columns = np.nonzero(np.isfinite(z) & (np.asarray(words, dtype=object) != ""))
    place = (z[rows, columns] - low) / ((high - low) or 1.0)
    figure.add_trace(
        go.Scatter(
            x=columns,
            y=rows,
            mode="text",
            text=np.asarray(words, dtype=object)[rows, columns].tolist(),
            textfont={"size": size, "color": [ink_on(blended(scale, float(share))) for share in place]},
            hoverinfo="skip",
            showlegend=False,
            name="numbers",
        )
    )


def numbers(
    z: np.ndarray,
    words: Sequence[Sequence[str]],
    scale: Scale,
    ends: tuple[float, float],
    theme: str,
    *,
    columns: Sequence[object] = (),
    rows: Sequence[object] = (),
    size: int = 12,
) -> go.Scatter:
    """Return the words of all cells of z [row, column], each in a color legible on its cell between `ends`.

    They have the theme's text color where z is NaN, on the background. `columns` and `rows` are the axes' positions, by
    default 0, 1, ...
    """
    places = [(row, column) for row in range(z.shape[0]) for column in range(z.shape[1])]
    shares = [(z[place] - ends[0]) / ((ends[1] - ends[0]) or 1.0) for place in places]
    return go.Scatter(
        x=[columns[column] if len(columns) else column for _, column in places],
        y=[rows[row] if len(rows) else row for row, _ in places],
        mode="text",
        text=[words[row][column] for row, column in places],
        textfont={"size": size, "color": [INK[theme] if np.isnan(s) else ink_on(blended(scale, s)) for s in shares]},
        hoverinfo="skip",
        showlegend=False,
        name="numbers",
    )


def blended(scale: Scale, share: float) -> str:
    """Return the color at 0..1 of the scale, between its stops as a browser mixes them."""
    share = min(max(share, 0.0), 1.0)
    below = max((stop for stop in scale if stop[0] <= share), key=lambda stop: stop[0])
    above = min((stop for stop in scale if stop[0] >= share), key=lambda stop: stop[0])
    part = (share - below[0]) / (above[0] - below[0]) if above[0] > below[0] else 0.0
    mixed = [round(a + part * (b - a)) for a, b in zip(_channels(below[1]), _channels(above[1]), strict=True)]
    return "#" + "".join(f"{channel:02X}" for channel in mixed)


def ink_on(ground: str) -> str:
    """Return black or white, the one with the larger contrast on this color (WCAG 2.2); never below 4.5:1."""
    return max(INKS, key=lambda ink: contrast(ink, ground))


def contrast(a: str, b: str) -> float:
    """Return the contrast ratio of two colors, 1 to 21."""
    light, dark = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def shown(name: str, most: int = 14) -> str:
    """Cut a name to `most` characters, to fit an axis, and escape characters that plotly reads as markup."""
    cut = name if len(name) <= most else name[: most - 1] + "…"
    return escape(cut, quote=False)


def broken(name: str, most: int = 12) -> str:
    """Break a name longer than `most` characters into lines: words, or parts between hyphens and underscores."""
    return name if len(name) <= most else re.sub(r" " if " " in name else r"(?<=[-_])(?=.)", "<br>", name)


def _luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (x / 255 for x in _channels(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
