"""The reference for pages about the place or the size of a region: a control of its size, or the fine-tuned model; each
as a verdict with its paired difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from skillviz.analysis.answers import answers_of_state
from skillviz.analysis.differences import less_baseline
from skillviz.analysis.necessity import MOST
from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import DifferenceVerdict
from skillviz.runs.metrics import positive
from skillviz.runs.record import RunRecord, Scores
from skillviz.show import sentences
from skillviz.show.briefs import RunBrief, roles

CONTROLS = {
    "random-matched": "a random region in the same layers and modules",
    "random": "a random region of its size",
    "movement": "top movement at its size",
}
"""Localizers that a region is compared with, the strictest first, and the name of each in a verdict."""


class Judged(NamedTuple):
    """A verdict, with the words around its chip: its subject before it, the paired difference after it."""

    verdict: DifferenceVerdict
    subject: str
    difference: str


def control_of(briefs: Sequence[RunBrief], judged: RunBrief) -> RunBrief | None:
    """The run of the first of CONTROLS on the same pair, examples and size, with default settings; with the judged
    run's seed if possible, otherwise the lowest seed. None if there is none; a control is only compared with
    stricter ones."""
    names = list(CONTROLS)
    stricter = names[: names.index(judged.localizer)] if judged.localizer in names else names
    role_of = roles(briefs)
    rivals = [
        brief for brief in briefs
        if brief.localizer in stricter
        and (brief.pair, brief.size, brief.n, brief.gain) == (judged.pair, judged.size, judged.n, judged.gain)
        and role_of[brief.id] != "variant"
    ]  # fmt: skip
    return min(rivals, key=lambda e: (names.index(e.localizer), e.seed != judged.seed, e.seed, e.id), default=None)


def beside_control(
    record: RunRecord, predictions: pd.DataFrame, control: RunBrief, of_control: pd.DataFrame, split: str
) -> Judged | None:
    """The graft's score minus the control's on the test examples that both have; None if they share none."""
    if record.task is None:
        return None
    tables = {"graft": predictions, "control": of_control}
    answers = {name: answers_of_state(table, split, record.task.labels, "grafted") for name, table in tables.items()}
    rows = less_baseline(answers, "control", [record.metric], positive(record.task))
    if rows.empty:
        return None
    row, metric = rows.iloc[0], metric_row(record.metric)
    subject = f"{metric.heading} vs {CONTROLS[control.localizer]}:"
    return Judged(
        metric.verdict(row["low"], row["high"]), subject, metric.difference(row["value"], row["low"], row["high"])
    )


def beside_finetuned(record: RunRecord, scores: Scores, names_size: bool = False) -> Judged | None:
    """The graft's score minus the fine-tuned model's, as stored in the run. None if no paired difference was stored."""
    difference = scores.differences.get(record.metric)
    if difference is None or difference.value is None or difference.low is None:
        return None
    at = f" at {formats.share(record.share)}" if names_size else ""
    subject = f"{metric_row(record.metric).heading}{at} vs fine-tuned:"
    verdict = sentences.verdict(record.metric, difference)
    return Judged(verdict, subject, sentences.metric_difference(record.metric, difference))


def smallest_enough(briefs: Sequence[RunBrief], like: RunBrief) -> RunBrief:
    """The smallest run with MOST of the gain, among those that differ from `like` only in size; `like` if there is
    none."""
    enough = [
        brief for brief in briefs
        if (brief.pair, brief.localizer, brief.settings, brief.seed, brief.n)
        == (like.pair, like.localizer, like.settings, like.seed, like.n) and (brief.recovered or 0.0) >= MOST
    ]  # fmt: skip
    return min(enough, key=lambda e: (e.size, e.id), default=like)
