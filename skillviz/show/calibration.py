"""The calibration page's exhibits: confidence and reliability."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.core.intervals import metric_difference, metric_interval
from skillviz.core.verdicts import DifferenceVerdict
from skillviz.plots.calibration import confidence_histogram, reliability_diagram
from skillviz.plots.theme import STATES, Style, state_style
from skillviz.runs.metrics import estimate
from skillviz.runs.record import Estimate
from skillviz.show import alt, measures, sentences
from skillviz.show.exhibit import OVER_EXAMPLES, Exhibit, drawn_once


def verdicts(
    logits: Mapping[str, np.ndarray], labels: np.ndarray, bins: int, equal_mass: bool
) -> list[tuple[DifferenceVerdict, str]]:
    """On each rival of the graft (`sentences.RIVALS`) the verdict on their paired difference in ECE, and its sentence.

    It is not measured with equal mass. `logits` [n, label] by state, the graft's and those of rivals among them.
    """
    metric, graft = measures.ece_metric(equal_mass), logits["grafted"]
    values = {name: estimate(metric_interval(z, labels, metric, bins=bins)).read for name, z in logits.items()}
    judged = []
    for rival in (name for name in sentences.RIVALS if name in logits):
        difference = estimate(metric_difference(graft, logits[rival], labels, metric, bins=bins))
        judged.append((sentences.verdict(metric, difference), sentences.ece_against(rival, values, difference)))
    return judged


@drawn_once
def confidence(bins: pd.DataFrame, theme: str) -> Exhibit:
    """The number of examples predicted with each confidence, and the number of errors among them."""
    return Exhibit(
        name="confidence",
        title="Confidence",
        figure=confidence_histogram(bins, theme=theme),
        reads="bars are examples by confidence; the hatched part of each is wrong. "
        "Hatching at the right: confident and wrong.",
        alt=alt.histogram(bins),
        table=bins,
        words=("confidence",),
    )


@drawn_once
def reliability(
    bins: pd.DataFrame,
    theme: str,
    name: str = "reliability",
    title: str = "Reliability",
    styles: Mapping[str, Style] | None = None,
    errors: Mapping[str, Estimate] | None = None,
    p_values: Mapping[str, float] | None = None,
) -> Exhibit:
    """Accuracy against confidence; `styles` are for names in the column `state` that are not states.

    `errors` are the states' calibration errors with their intervals, `p_values` belong to the test of calibration.
    """
    titles = {state: style.title for state, style in (styles or {}).items()}
    return Exhibit(
        name=name,
        title=title,
        figure=reliability_diagram(
            bins, styles=styles or STATES, errors={s: _interval(one) for s, one in (errors or {}).items()}, theme=theme
        ),
        reads="a bar is the accuracy in a bin of confidence, hatching its gap to the mean confidence. A bar below the "
        "diagonal is overconfident, above it underconfident. Numbers are counts; vertical lines are 95% intervals."
        f"{_tested(p_values or {})}",
        intervals=OVER_EXAMPLES,
        alt=alt.reliability(bins.assign(state=bins["state"].replace(titles))),
        table=bins,
        words=("ece", "debiased", "confidence"),
    )


def _interval(error: Estimate) -> str:
    """A panel's ECE: the debiased one with its interval above the plug-in value, or a note that there is no
    interval."""
    if error.debiased is None:
        return f"{formats.percent(error.value)}<br>no interval"
    ends = formats.percent_interval(error.low, error.high)
    return f"{formats.percent(error.debiased)} ({ends})<br>plug-in {formats.percent(error.value)}"


def _tested(p_values: Mapping[str, float]) -> str:
    """The results of the calibration test for each state."""
    if not p_values:
        return ""
    told = formats.listed([f"{state_style(state).title} p = {p:.3f}" for state, p in p_values.items()], len(p_values))
    return f" Could a calibrated model have such gaps by chance? {told}; below 0.050, hardly."
