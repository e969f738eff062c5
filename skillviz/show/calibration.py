"""The calibration page's exhibits: confidence, reliability in bins or smoothed, and risk by coverage."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.core.intervals import Interval, metric_difference, metric_interval
from skillviz.core.metrics import metric_row
from skillviz.core.selective import RiskCoverage, aurc_difference
from skillviz.core.verdicts import DifferenceVerdict
from skillviz.plots import calibration as plots
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
        figure=plots.confidence_histogram(bins, theme=theme),
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
        figure=plots.reliability_diagram(
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


@drawn_once
def smooth_reliability(
    curves: pd.DataFrame,
    smooth: Mapping[str, Interval],
    theme: str,
    errors: Mapping[str, Estimate],
    p_values: Mapping[str, float],
) -> Exhibit:
    """The same with confidence and accuracy averaged under a kernel; `smooth` are the states' smECE."""
    values = {state: f"smECE {_read(estimate(of))}" for state, of in smooth.items()}
    told = [f"{state_style(state).title}: {words}" for state, words in values.items()]
    return Exhibit(
        name="smooth_reliability",
        title="Smoothed reliability",
        figure=plots.smooth_reliability(
            curves,
            {state: f"{words}<br>ECE {_read(errors[state])}" for state, words in values.items()},
            theme=theme,
        ),
        reads="the line is the accuracy of the examples near a confidence, its band a 95% interval at each confidence. "
        "Below the diagonal the model is overconfident, above it underconfident; smECE is the mean distance from it. "
        f"Wide bands: few examples.{_tested(p_values)}",
        intervals=OVER_EXAMPLES,
        alt=f"Smoothed reliability. {'; '.join(told)}.",
        table=curves,
        words=("smece", "ece", "debiased", "confidence"),
    )


RISK_TITLE = "What if the model answers only when it is sure?"
RISK_WORDS = ("risk", "aurc", "confidence")


def risk_verdicts(curves: Mapping[str, RiskCoverage]) -> list[tuple[DifferenceVerdict, str]]:
    """For each rival of the graft with a curve of its own, the verdict on the paired AURC difference, and its words."""
    row, shown, judged = metric_row("aurc"), _distinct(curves), []
    for rival in (name for name in sentences.RIVALS if name in shown):
        value, low, high, *_ = aurc_difference(shown["grafted"], shown[rival])
        graft, other = (row.number(shown[state].aurc.value) for state in ("grafted", rival))
        words = f"AURC **{graft}** for the graft, **{other}** for {sentences.RIVALS[rival]}"
        judged.append((row.verdict(low, high), f"{words}: {row.difference(value, low, high)}."))
    return judged


@drawn_once
def risk_coverage(curves: Mapping[str, RiskCoverage], theme: str) -> Exhibit:
    """The share of wrong answers among the most confident ones, by the share of examples that is answered."""
    shown = _distinct(curves)
    table = pd.concat([of.curve.assign(state=state) for state, of in shown.items()], ignore_index=True)
    titles = {state: f"{state_style(state).title}: AURC {_read(estimate(of.aurc))}" for state, of in shown.items()}
    told = [
        f"{titles[state]}, {formats.percent(np.interp(0.5, of.curve['coverage'], of.curve['risk']))} wrong at 50% "
        f"coverage, {formats.percent(of.curve['risk'].iloc[-1])} at 100%"
        for state, of in shown.items()
    ]
    same = " Temperature scaling keeps the order here, so it has the fine-tuned model's curve."
    return Exhibit(
        name="risk_coverage",
        title="Risk and coverage",
        figure=plots.risk_coverage(table, titles, theme=theme),
        reads="at 30% coverage the model answers the 30% of examples of which it is surest; the risk is the share of "
        f"wrong answers among them. At 100% it is the error rate. Lower is better. Bands are 95% intervals at each "
        f"coverage.{same if len(shown) < len(curves) else ''}",
        intervals=OVER_EXAMPLES,
        alt=f"Risk by coverage. {'; '.join(told)}.",
        table=table,
        words=RISK_WORDS,
    )


def _distinct(curves: Mapping[str, RiskCoverage]) -> dict[str, RiskCoverage]:
    """The curves without the temperature-scaled model's if it equals the fine-tuned model's, as for two classes."""
    tuned = curves["finetuned"].curve["risk"]
    return {
        state: of
        for state, of in curves.items()
        if state != measures.TEMPERATURE or not np.allclose(of.curve["risk"], tuned, rtol=0, atol=1e-12)
    }


def _interval(error: Estimate) -> str:
    """A panel's ECE: the debiased one with its interval above the plug-in value, or a note that there is no
    interval."""
    if error.debiased is None:
        return f"{formats.percent(error.value)}<br>no interval"
    return f"{_read(error)}<br>plug-in {formats.percent(error.value)}"


def _read(error: Estimate) -> str:
    return f"{formats.percent(error.read)} ({formats.percent_interval(error.low, error.high)})"


def _tested(p_values: Mapping[str, float]) -> str:
    """The results of the calibration test for each state."""
    if not p_values:
        return ""
    told = formats.listed([f"{state_style(state).title} p = {p:.3f}" for state, p in p_values.items()], len(p_values))
    return f" Could a calibrated model have such gaps by chance? {told}; below 0.050, hardly."
