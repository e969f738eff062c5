"""Colors, marks and the plotly template of every figure, for the light and the dark theme.

A model state has one color and one mark everywhere. A localizer has its own hue, never one of the three main states',
with its own dash and marker. All have a contrast of 3:1 with both backgrounds (WCAG 2.2, 1.4.11), so the same figure is
legible in either theme and color is never the only distinction. In the dark theme every mark has a lighter counterpart
(`dark_mark`), which `plots.dark_marks` puts into a finished figure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from zlib import crc32

import plotly.graph_objects as go

from skillviz.core.localizers import table

THEMES = ("light", "dark")
GROUND = {"light": "#FFFFFF", "dark": "#0E1117"}
INK = {"light": "#1A1F2B", "dark": "#E8EAED"}
SOFT_INK = {"light": "#565E6C", "dark": "#A3AAB6"}
GRID = {"light": "#E6E8EC", "dark": "#262B34"}
FONT = '"Source Sans", "Source Sans Pro", "Source Sans 3", system-ui, sans-serif'
DENSITY = "Cividis"
BAR = "#0085AD"  # bars that belong to no state and no localizer


@dataclass(frozen=True)
class Style:
    """One row of a style table: the displayed name, a hex color, a plotly marker and a plotly dash."""

    title: str
    color: str
    symbol: str
    dash: str

    def line(self, width: float = 2) -> dict:
        """Return the `line` of a plotly trace."""
        return {"color": self.color, "dash": self.dash, "width": width}

    def faint(self, opacity: float) -> str:
        """Return the color with this opacity."""
        red, green, blue = (int(self.color[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},{opacity})"

    def marker(self, size: float = 8) -> dict:
        """Return the `marker` of a plotly trace."""
        return {"color": self.color, "symbol": self.symbol, "size": size, "line": {"color": self.color, "width": 1.5}}


STATES = {
    "pretrained": Style("pre-trained", "#6B7280", "circle-open", "dot"),
    "grafted": Style("grafted", "#007A5A", "diamond", "solid"),
    "finetuned": Style("fine-tuned", "#C44E00", "circle", "dash"),
    "complement": Style("complement", "#7F4FA8", "x", "dashdot"),
    "temperature": Style("temperature-scaled", "#946E00", "triangle-up-open", "longdash"),
}

LOCALIZERS = {name: Style(row.title, row.color, row.marker, row.dash) for name, row in table.LOCALIZERS.items()}

# Attention is in blues, MLP in ochres: kinds of one color differ by marker and dash.
MODULE_KINDS = {
    "query": Style("query", "#1D5FD1", "square-open", "dot"),
    "key": Style("key", "#0085AD", "diamond-open", "dash"),
    "value": Style("value", "#1D5FD1", "square", "solid"),
    "attention output": Style("attention output", "#0085AD", "triangle-up", "dashdot"),
    "key and value": Style("key and value", "#0085AD", "diamond", "longdash"),
    "cross query": Style("cross-attention query", "#1D5FD1", "square-x", "dot"),
    "cross key": Style("cross-attention key", "#0085AD", "diamond-x", "dash"),
    "cross value": Style("cross-attention value", "#1D5FD1", "square-cross", "solid"),
    "cross output": Style("cross-attention output", "#0085AD", "triangle-down", "dashdot"),
    "MLP gate": Style("MLP gate", "#A16207", "pentagon", "dot"),
    "MLP up": Style("MLP up", "#A16207", "pentagon-open", "dashdot"),
    "MLP in": Style("MLP in", "#A16207", "circle", "solid"),
    "MLP out": Style("MLP out", "#A16207", "circle-open", "dash"),
    "router": Style("router", "#7D5F3A", "star-triangle-up", "solid"),
    "expert gate": Style("expert gate", "#A16207", "hexagon2", "dot"),
    "expert up": Style("expert up", "#A16207", "hexagon2-open", "dashdot"),
    "expert out": Style("expert out", "#A16207", "octagon", "dash"),
    "position": Style("position", "#7D5F3A", "triangle-left", "dash"),
    "LayerNorm": Style("LayerNorm", "#C01F8E", "star", "longdash"),
    "other": Style("other", "#7D5F3A", "cross", "dot"),
    "bias": Style("biases", "#8B3FD9", "x", "dot"),
}

MARKUP = re.compile(r"[\[\]<>`$*~|:\\\x00-\x1f]")
"""Characters without which Markdown and Plotly's texts cannot contain a picture, link, icon, code, bold type, formula,
element, cell or line break."""
_SPARE_COLORS = ("#1D5FD1", "#8B3FD9", "#D6247F", "#0085AD", "#7A7D00", "#C8143F", "#7D5F3A", "#B56576")
_SPARE_SYMBOLS = ("hexagon", "hourglass", "bowtie", "star-diamond", "hexagram", "star-square", "circle-cross")
_SPARE_DASHES = ("10px,2px", "2px,5px", "7px,2px,2px,2px", "12px,4px", "3px,2px")


# The states' colors are the dark theme's text colors of the same names, so that a number and its mark look alike.
_DARK_STATES = {"#6B7280": "#A3AAB7", "#007A5A": "#3DB88E", "#C44E00": "#EE8E4E"}
_WHITE = 0.2


def marks() -> frozenset[str]:
    """Return every color that a mark can have in the light theme."""
    styles = (*STATES.values(), *LOCALIZERS.values(), *MODULE_KINDS.values())
    return frozenset((*(style.color for style in styles), *_SPARE_COLORS, BAR))


def dark_mark(color: str) -> str:
    """Return the counterpart of a mark's color in the dark theme: a fifth of white mixed in, or the state's own."""
    if color in _DARK_STATES:
        return _DARK_STATES[color]
    channels = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(channel + _WHITE * (255 - channel)):02X}" for channel in channels)


def spare_style(name: str) -> Style:
    """Return a style for a name outside the tables: always the same for one name, with marks that no table uses."""
    number = crc32(name.encode())
    color, number = _SPARE_COLORS[number % 8], number // 8
    symbol, number = _SPARE_SYMBOLS[number % 7], number // 7
    return Style(name, color, symbol, _SPARE_DASHES[number % 5])


def state_style(name: str) -> Style:
    """Return the style of a model state (`pretrained`, `grafted`, `finetuned`, `complement`, `temperature`)."""
    return STATES.get(name) or spare_style(name)


def localizer_style(name: str, settings: str = "") -> Style:
    """Return the style of a localizer, also of a new one; with other `settings` it keeps the color, not the marks.

    A name outside the table comes from an untrusted run: characters of pictures, links, code, markup and line breaks
    are removed.
    """
    style = LOCALIZERS.get(name) or replace(spare_style(name), title=MARKUP.sub("", name))
    if not settings:
        return style
    return replace(spare_style(f"{name} ({settings})"), color=style.color, title=f"{style.title} ({settings})")


def kind_style(name: str) -> Style:
    """Return the style of a module kind; `bias` for the biases of all kinds."""
    return MODULE_KINDS.get(name) or spare_style(name)


def check_theme(theme: str) -> str:
    """Return the theme's name. Raises ValueError for one that is not in THEMES."""
    if theme not in THEMES:
        raise ValueError(f"theme {theme!r} is not known; it is one of {', '.join(THEMES)}")
    return theme


def _axis(theme: str) -> dict:
    return {
        "automargin": True,
        "gridcolor": GRID[theme],
        "gridwidth": 1,
        "linecolor": GRID[theme],
        "zeroline": False,
        "ticks": "",
        "tickfont": {"size": 12, "color": SOFT_INK[theme]},
        "title": {"font": {"size": 13, "color": SOFT_INK[theme]}, "standoff": 8},
    }


def template(theme: str = "light") -> go.layout.Template:
    """Return the plotly template: transparent, in the theme's text color, few gridlines, horizontal legend on top."""
    check_theme(theme)
    layout = {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 13, "color": INK[theme]},
        "colorway": list(_SPARE_COLORS),
        "colorscale": {"sequential": DENSITY},
        "xaxis": {**_axis(theme), "showgrid": False, "showline": True},
        "yaxis": {**_axis(theme), "nticks": 6},
        "showlegend": True,  # plotly hides a legend of one entry, and with it the only name
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.02,
            "yanchor": "bottom",
            "font": {"size": 12},
            "itemsizing": "trace",
            "bgcolor": "rgba(0,0,0,0)",
        },
        "hoverlabel": {
            "bgcolor": GROUND[theme],
            "bordercolor": SOFT_INK[theme],
            "font": {"color": INK[theme], "family": FONT, "size": 13},
            "align": "left",
        },
        "margin": {"l": 8, "r": 12, "t": 12, "b": 8},
        "hovermode": "closest",
        "dragmode": False,
        # vertical at the right edge, clear of legend and axis; `ui/frame.css` moves it into the margin
        "modebar": {
            "orientation": "v",
            "bgcolor": "rgba(0,0,0,0)",
            "color": SOFT_INK[theme],
            "activecolor": INK[theme],
        },
    }
    return go.layout.Template(layout=layout)
