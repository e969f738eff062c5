"""The opening page: one run as four numbers and two small figures."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import DifferenceVerdict
from skillviz.runs.record import Estimate, NullNote, RunRecord, Scores
from skillviz.show import beyond, region, sentences, sparsity, text
from skillviz.show.exhibit import Exhibit
from skillviz.show.sentences import metric_value

HEIGHT = 350


class Number(NamedTuple):
    """A number of the finding, with its basis shown below it; `verdict` if it is a comparison."""

    title: str
    value: str
    basis: str
    words: tuple[str, ...] = ()
    verdict: DifferenceVerdict | None = None


def sentence(record: RunRecord, scores: Scores) -> str:
    """An explanation of a graft, with the data on which the numbers were measured."""
    base, n = text.plain(text.last_part(record.spec.base)), formats.counted(scores.n, "test example")
    what = "the fine-tuned values of a few parameters"
    if record.gain != 1:
        what = f"a few parameters moved {formats.times(record.gain)} times as far as by fine-tuning"
    return f"A *graft* is a pre-trained model with {what}. This one: {text.tasks(record.task_name)} on {base}, {n}."


def numbers(record: RunRecord, scores: Scores, split: str, measured: pd.DataFrame) -> list[Number]:
    """The share that is copied, the gain that it recovers, its margin over the null, and the calibration errors.

    `measured` is `analysis.null_measures.by_measure` of the run on the split, and may be empty.
    """
    copied = Number(
        "Parameters copied" if record.gain == 1 else "Parameters moved",
        formats.share(record.share),
        f"{formats.count(record.size)} of {formats.count(record.d)}",
        ("size", "graftable"),
    )
    note = record.null(split)
    null = note.states[split].get("recovered") if note else None
    return [
        copied,
        *_gain(record, scores, null),
        *_beyond(record, split, note, measured),
        *_calibration(record, scores),
    ]


def _gain(record: RunRecord, scores: Scores, null: Estimate | None) -> list[Number]:
    recovered, row = scores.recovered, metric_row(record.metric)
    if recovered is None or recovered.value is None:
        return []
    ends = [scores.states.get(state, {}).get(record.metric) for state in ("pretrained", "grafted", "finetuned")]
    before, graft, tuned = (end.value if end else None for end in ends)
    interval = formats.percent_interval(recovered.low, recovered.high, 0)
    basis = f"95%: {interval}; {_change(record.metric, before, graft)}, fine-tuned {row.number(tuned)}"
    if null is not None and null.value is not None:
        basis += f"; shuffled movements: {formats.percent(null.value, 0)}"
    return [Number(f"{row.heading} gain recovered", formats.percent(recovered.value, 0), basis, ("recovered", "null"))]


def _beyond(record: RunRecord, split: str, note: NullNote | None, measured: pd.DataFrame) -> list[Number]:
    judged = beyond.judged(record, split)
    if judged is None:
        return []
    if note is None:
        missing = "localize --nulls shuffled measures it"
        return [Number(beyond.TITLE, formats.MISSING, missing, ("null",), judged.verdict)]
    metric, estimate = next(iter(note.beyond[split].items()))
    row = metric_row(metric)
    shared = beyond.shared_probability(measured)
    if shared is None:
        basis = f"95%: {row.ends(estimate.low, estimate.high)} ({beyond.draws(note)})"
        return [Number(beyond.TITLE, row.change(estimate.value), basis, ("null",), judged.verdict)]
    basis = (
        f"95%: {row.ends(shared.low, shared.high)}; shared probability {formats.percent(shared.graft, 0)}, nulls "
        f"{formats.percent(shared.null, 0)} ({beyond.draws(note)}); {row.title} "
        f"{row.difference(estimate.value, estimate.low, estimate.high, level='')}"
    )
    verdict = row.verdict(shared.low, shared.high)
    return [Number(beyond.TITLE, row.change(shared.beyond), basis, ("null", "shared"), verdict)]


def _calibration(record: RunRecord, scores: Scores) -> list[Number]:
    graft, tuned = (scores.states.get(state, {}).get("ece") for state in ("grafted", "finetuned"))
    difference = scores.differences.get("ece")
    if graft is None or tuned is None or difference is None:
        return []
    return [
        Number(
            "Calibration error",
            _change("ece", tuned.read, graft.read),
            f"{sentences.metric_difference('ece', difference)}, fine-tuned → graft{sentences.before_scaling(record)}",
            ("ece", "paired", "debiased"),
            sentences.verdict("ece", difference),
        )
    ]


def _change(metric: str, before: float | None, after: float | None) -> str:
    """`14.0 → 0.0%`: two values with their unit once, so that a verdict fits next to them."""
    return f"{metric_value(metric, before).removesuffix('%')} → {metric_value(metric, after)}"


def curve(points: pd.DataFrame, record: RunRecord, split: str, own: sparsity.Line, theme: str) -> Exhibit:
    """The task's metric by region size, for this run's localizer alone; `points` come from `measures.pair_curve`."""
    alone = points[(points["localizer"] == own[0]) & (points["settings"] == own[1])].reset_index(drop=True)
    return sparsity.sizes(alone, record, split, record.metric, own, theme, height=HEIGHT)


def where(layers: pd.DataFrame, theme: str) -> Exhibit:
    """The map of the region, with the height of the curve next to it."""
    return region.region_map(layers, "density", None, theme, height=HEIGHT)
