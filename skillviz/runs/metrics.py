"""Metrics of a run's predictions with their intervals, as stored in run.json and curve.parquet."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from skillviz.core.agreement import agreement_interval
from skillviz.core.generation import token_probability
from skillviz.core.intervals import Interval, metric_difference, metric_interval, recovered_gain
from skillviz.core.metrics import COMPARED, SCORED, has_predictions, metric_names, score
from skillviz.core.scores import correct, losses
from skillviz.core.temperature import scaled
from skillviz.runs.record import Estimate, Scores, TaskNote

SCALED = "finetuned_scaled"

Logits = Mapping[str, np.ndarray]
Metrics = dict[str, Estimate]


def split_scores(
    logits: Logits,
    labels: np.ndarray,
    task: TaskNote,
    temperature: float | None = None,
    known: Mapping[str, Metrics] | None = None,
) -> Scores:
    """Return the metrics of one split: of every state in `logits` [n, label], and the comparisons between them.

    With a `temperature` the fine-tuned model is also scored at it, as `finetuned_scaled`. States in `known` are not
    scored again.
    """
    states = with_scaled(logits, temperature)
    known = known or {}
    compared = {"grafted", "finetuned"} <= states.keys()
    return Scores(
        n=len(labels),
        states={s: known[s] if s in known else metrics(values, labels, task) for s, values in states.items()},
        differences=_differences(states, "finetuned", labels, task) if compared else {},
        scaled_differences=_differences(states, SCALED, labels, task) if compared and SCALED in states else {},
        agreement=_agreement(states, task).get("agreement") if compared else None,
        recovered=recovered(states, labels, task) if compared and "pretrained" in states else None,
    )


def with_scaled(logits: Logits, temperature: float | None) -> dict[str, np.ndarray]:
    """Return the states and, if there is a temperature, the fine-tuned one scaled by it."""
    states = dict(logits)
    if temperature is not None:
        states[SCALED] = scaled(logits["finetuned"], temperature)
    return states


def metrics(logits: np.ndarray, labels: np.ndarray, task: TaskNote, names: Collection[str] = SCORED) -> Metrics:
    """Return every metric of one state (or only those in `names`) with the interval named in its row of the table."""
    values = score(logits, labels, task.metric, positive(task), names)
    return {name: estimate(metric_interval(logits, labels, name, positive(task))) for name in values}


def graft_row(logits: Logits, labels: np.ndarray, task: TaskNote) -> Metrics:
    """Return the metrics that judge a size: the graft's own, its agreement (with predictions), and the recovered gain.

    `logits` holds at least pretrained, finetuned and grafted.
    """
    row = {**_agreement(logits, task), "recovered": recovered(logits, labels, task)}
    return {**metrics(logits["grafted"], labels, task), **row}


def complement_row(logits: Logits, labels: np.ndarray, task: TaskNote) -> Metrics:
    """Return the complement's row: its accuracy and task metric, agreement, and the share of the gain that it keeps.

    `logits` holds at least pretrained, finetuned and complement.
    """
    states = {**logits, "grafted": logits["complement"]}
    row = {**_agreement(states, task), "recovered": recovered(states, labels, task)}
    return {**metrics(logits["complement"], labels, task, metric_names(task.metric, ("accuracy",))), **row}


def graft_row_of(split_scores: Scores) -> Metrics:
    """Return the same as `graft_row`, for a split that is already scored."""
    row = {"agreement": split_scores.agreement, "recovered": split_scores.recovered}
    return {**split_scores.states["grafted"], **{name: value for name, value in row.items() if value is not None}}


def curve_rows(row: Metrics, **common: Any) -> list[dict[str, Any]]:
    """Return the rows of curve.parquet for one size and split; `common` are the columns that do not change."""
    return [{**common, "metric": name, **value.columns()} for name, value in row.items()]


def positive(task: TaskNote) -> int:
    """Return the positive class for F1: the task's, or class 1."""
    return 1 if task.positive is None else task.positive


def estimate(interval: Interval) -> Estimate:
    """An interval as it is stored: not defined is None, never NaN."""
    defined: dict[str, Any] = {name: float(x) for name, x in interval._asdict().items() if math.isfinite(x)}
    return Estimate(**{"value": None} | defined)


def _differences(states: Logits, other: str, labels: np.ndarray, task: TaskNote) -> dict[str, Estimate]:
    """Return the paired differences grafted - other, in the task's metric and in all compared metrics."""
    pair = states["grafted"], states[other], labels
    names = metric_names(task.metric, COMPARED)
    return {name: estimate(metric_difference(*pair, name, positive(task))) for name in names}


def _agreement(states: Logits, task: TaskNote) -> Metrics:
    """Return the agreement by its name; empty if there are no predictions."""
    if not has_predictions(task.metric):
        return {}
    return {"agreement": estimate(agreement_interval(states["grafted"], states["finetuned"]))}


def recovered(states: Logits, labels: np.ndarray, task: TaskNote) -> Estimate:
    """Return the share of the gain that the graft recovers, in the task's metric."""
    grafted, pretrained, finetuned = (states[name] for name in ("grafted", "pretrained", "finetuned"))
    return estimate(recovered_gain(grafted, pretrained, finetuned, labels, task.metric, positive=positive(task)))


def _right(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return correct(logits, labels).astype(np.float64)


def _log_likelihood(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return -losses(logits, labels)


def _of_token(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.log(token_probability(scores))


ExampleScore = Callable[[np.ndarray, np.ndarray], np.ndarray]


def example_scores(task: TaskNote) -> dict[str, ExampleScore]:
    """Return functions that score single examples, higher is better: 1 or 0 for correctness, minus the loss in nats.

    For references the loss is per token; their correctness is known only if texts are generated.
    """
    likelihood = _of_token if task.has_reference else _log_likelihood
    if task.has_reference and not task.generates:
        return {"nll": likelihood}
    return {"accuracy": _right, "nll": likelihood}
