"""Text for readers who cannot see a figure: its `alt` text, with the figure's main values."""

from __future__ import annotations

import pandas as pd

from skillviz.core import formats
from skillviz.core.metrics import FOREMOST, metric_row
from skillviz.plots.figure import centers
from skillviz.plots.theme import localizer_style, state_style
from skillviz.show.sentences import metric_value, times

REGION_VIEWS = {
    "density": ("density_ratio", "Density, times the region's average,", "densest"),
    "share": ("share", "Share of the region", "largest"),
    "movement": ("movement_share", "Movement held by the region", "largest"),
    "stability": ("iou", "Entries that two seeds' regions share", "most stable"),
    "overlap": ("iou", "Entries that both regions have", "largest"),
    "minimal": ("iou", "Share of the region that suffices", "largest"),
}
"""For each view of the region: its column, its title, and the adjective for its largest cells."""


def overview(states: pd.DataFrame) -> str:
    """The values of the comparison figure as text."""
    shown = states[states["metric"].isin(FOREMOST)]
    words = [
        f"{state_style(str(state)).title} {metric_row(metric).title} {metric_value(metric, value)}"
        for state, metric, value in zip(shown["state"], shown["metric"], centers(shown, 1.0), strict=True)
    ]
    return "Models side by side. " + "; ".join(words) + "."


def history(history: pd.DataFrame) -> str:
    """The change of the loss over the search."""
    losses = history["loss"].dropna()
    if losses.empty:
        return "This localizer took no steps."
    ends = f"from {formats.number(losses.iloc[0])} to {formats.number(losses.iloc[-1])} nats"
    on, off = (formats.count(int(history[name].sum())) for name in ("added", "removed"))
    return f"Training loss over {len(history)} steps, {ends}; {on} entries were switched on, {off} off."


def region_map(cells: pd.DataFrame, view: str) -> str:
    """The three cells with the largest values of a view of the region."""
    column, title, word = REGION_VIEWS[view]
    best = cells[cells[column] > 0].nlargest(3, column)
    words = [
        f"layer {layer_word(layer)} {kind} {times(value) if column == 'density_ratio' else formats.percent(value)}"
        for layer, kind, value in zip(best["layer"], best["kind"], best[column], strict=True)
    ]
    return f"{title} by layer and module" + (f"; {word}: {', '.join(words)}." if words else ": nothing to show.")


def reliability(bins: pd.DataFrame) -> str:
    """The distance of each model's confidence from its accuracy."""
    words = []
    for state, rows in bins[bins["count"] > 0].groupby("state", sort=False):
        gap = ((rows["confidence"] - rows["accuracy"]) * rows["count"]).sum() / rows["count"].sum()
        words.append(f"{state_style(str(state)).title}: confidence lies {formats.points(gap)} from accuracy on average")
    return "Reliability diagram. " + "; ".join(words) + "."


def histogram(bins: pd.DataFrame) -> str:
    """The share of examples that each model puts into the highest bin."""
    words = []
    for state, rows in bins.groupby("state", sort=False):
        top = rows.sort_values("lower").iloc[-1]
        share = formats.percent(float(top["count"]) / max(int(rows["count"].sum()), 1))
        words.append(f"{state_style(str(state)).title}: {share} above {formats.percent(float(top['lower']))}")
    return "Confidence histograms. " + "; ".join(words) + "."


def sparsity(points: pd.DataFrame, metric: str) -> str:
    """The ends of each localizer's line."""
    words = []
    for (localizer, settings), rows in points.groupby(["localizer", "settings"], sort=False):
        line = list(zip(centers(rows, 1.0), rows["share"], strict=True))
        ends = [f"{metric_value(metric, value)} at {formats.share(share)}" for value, share in (line[0], line[-1])]
        words.append(f"{localizer_style(str(localizer), str(settings)).title} {' and '.join(dict.fromkeys(ends))}")
    return f"{metric_row(metric).title} by region size. " + "; ".join(words) + "."


def layer_word(layer: object) -> str:
    """`3`, or `none` outside the blocks."""
    return "none" if pd.isna(layer) else str(int(layer))  # type: ignore[call-overload]
