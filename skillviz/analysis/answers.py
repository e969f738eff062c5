"""The answers of a model state, sorted by example id, read from stored predictions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from skillviz.core.temperature import scaled
from skillviz.runs.metrics import SCALED
from skillviz.runs.run import Run
from skillviz.runs.tables import score_matrix


@dataclass(frozen=True)
class Answers:
    """Ids and true classes of the examples [n], class scores of one model state on them [n, label], and 1 for each
    example with the same answer as the fine-tuned model [n] (grafts only)."""

    ids: np.ndarray
    labels: np.ndarray
    logits: np.ndarray
    agrees: np.ndarray | None = None

    @cached_property
    def examples(self) -> str:
        """A digest of ids and true classes: equal digests mean the same examples."""
        text = "\n".join(self.ids.astype(str)) + "\n" + ",".join(map(str, self.labels))
        return hashlib.sha256(text.encode()).hexdigest()

    def take(self, rows: np.ndarray) -> Answers:
        """The answers to some of the examples, selected by index or by mask."""
        agrees = None if self.agrees is None else self.agrees[rows]
        return Answers(self.ids[rows], self.labels[rows], self.logits[rows], agrees)


def answers_of_state(predictions: pd.DataFrame, split: str, labels: Sequence[str], state: str) -> Answers:
    """The answers of one state on a split; empty if the table has no such rows."""
    rows = predictions[(predictions["state"] == state) & (predictions["split"] == split)]
    rows = rows.sort_values("example_id", kind="stable")
    logits = score_matrix(rows, labels).astype(np.float64)
    return Answers(rows["example_id"].to_numpy(dtype=object), rows["label"].to_numpy(), logits)


def graft_answers(run: Run, split: str, size: int, tuned: Answers | None) -> Answers | None:
    """The answers of a run's graft at one of its sizes, with their agreement with the fine-tuned model; None if the
    run has no predictions at that size."""
    ids, labels, logits = run.logits("grafted", split, size=size)
    if not len(ids):
        return None
    order = np.argsort(ids.astype(str), kind="stable")
    answers = Answers(ids[order], labels[order], logits[order].astype(np.float64))
    return answers if tuned is None else agreeing(answers, tuned)


def agreeing(answers: Answers, tuned: Answers) -> Answers:
    """The answers, with their agreement with the fine-tuned model added."""
    return replace(answers, agrees=(answers.logits.argmax(1) == tuned.logits.argmax(1)).astype(np.float64))


def answers_by_state(
    predictions: pd.DataFrame, split: str, labels: Sequence[str], temperature: float | None
) -> dict[str, Answers]:
    """The answers by state; with a temperature, also for the temperature-scaled fine-tuned model."""
    states = predictions.loc[predictions["split"] == split, "state"].unique()
    answers = {str(state): answers_of_state(predictions, split, labels, state) for state in states}
    if "finetuned" in answers:
        tuned = answers["finetuned"]
        for state in ("grafted", "complement"):
            if state in answers:
                answers[state] = agreeing(answers[state], tuned)
        if temperature is not None:
            answers[SCALED] = replace(tuned, logits=scaled(tuned.logits, temperature))
    return answers
