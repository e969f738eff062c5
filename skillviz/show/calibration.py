"""The calibration page's exhibits: confidence, reliability, and the bins behind them."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from skillviz.plots.calibration import bin_counts, confidence_histogram, reliability_diagram
from skillviz.plots.theme import STATES, Style
from skillviz.show import alt
from skillviz.show.exhibit import Exhibit, drawn_once

HEIGHT = 420


@drawn_once
def confidence(bins: pd.DataFrame, theme: str) -> Exhibit:
    """How many examples are predicted with which confidence."""
    return Exhibit(
        name="confidence",
        title="How sure it is",
        figure=confidence_histogram(bins, theme=theme, height=HEIGHT),
        reads="how many examples are predicted with which confidence. Piled up at the right: always sure.",
        alt=alt.histogram(bins),
        table=bins,
        words=("confidence",),
    )


@drawn_once
def reliability(
    bins: pd.DataFrame,
    theme: str,
    name: str = "reliability",
    title: str = "Whether it is right to be",
    styles: Mapping[str, Style] | None = None,
) -> Exhibit:
    """Accuracy against confidence; `styles` are those of names in the column `state` that are no states."""
    titles = {state: style.title for state, style in (styles or {}).items()}
    return Exhibit(
        name=name,
        title=title,
        figure=reliability_diagram(bins, styles=styles or STATES, theme=theme, height=HEIGHT),
        reads="on the diagonal, confidence is accuracy; below it the model is too sure, above it not sure enough. "
        "Large marks are bins with many examples, vertical lines 95 % intervals.",
        alt=alt.reliability(bins.assign(state=bins["state"].replace(titles))),
        table=bins,
        words=("ece", "debiased", "confidence"),
    )


@drawn_once
def counts(bins: pd.DataFrame, theme: str) -> Exhibit:
    """How many examples each bin stands on."""
    return Exhibit(
        name="counts",
        title="Examples in each bin",
        figure=bin_counts(bins, theme=theme),
        reads="how many examples have which confidence. Where there are few, accuracy is uncertain.",
        alt=alt.histogram(bins),
        table=bins,
    )
