"""The examples that each part of a region changes, and how many its random controls of equal size change."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.part_effects import PLACE, REFERENCE
from skillviz.core.generation import token_probability
from skillviz.core.scores import predictions as answers_of
from skillviz.core.scores import probabilities
from skillviz.core.seeds_interval import seeds_and_examples
from skillviz.runs.record import TaskNote
from skillviz.runs.tables import score_matrix

COLUMNS = ("layer", "kind", "head", "size", "changed", "answers", "control", "value", "low", "high", "seeds")


@dataclass(frozen=True)
class PartMarks:
    """The change of each example by each part, in the order of the rows of `parts` and `examples`.

    `examples` has example_id, label, answer (a number) and probability (of the right answer, 0..1) in REFERENCE.
    `changes` float64 [part, example] is the rise of that probability by the part's graft, `answers` its answer, and
    `marked` is True if the answer is another one or the probability changes by `least` or more.

    `parts` has COLUMNS: the number of marked examples (`changed`), of other `answers` among them, and the mean number
    of marked examples over the random controls (`control`). `value` is the share of marked examples minus the
    controls' share, with its 95% interval over examples and the controls' draws (`seeds`); missing without a control.
    """

    examples: pd.DataFrame
    parts: pd.DataFrame
    changes: np.ndarray
    answers: np.ndarray
    marked: np.ndarray


def part_marks(predictions: pd.DataFrame, task: TaskNote, condition: str, least: float) -> PartMarks:
    """Return the examples that each part changes in one condition, from the table PARTS of `runs.part_scores`.

    For references, the probability is that of a token, and the answer is whether the reference was generated. Raises
    ValueError if the parts were scored on different examples.
    """
    first = predictions[predictions["condition"] == REFERENCE[condition]]
    labels, ids = first["label"].to_numpy(), first["example_id"].tolist()

    def read(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """The probability of the right answer [n], and the answers [n]."""
        if rows["example_id"].tolist() != ids:
            raise ValueError("the parts were not scored on the same examples in the same order")
        z = score_matrix(rows, task.labels)
        right = token_probability(z) if task.has_reference else probabilities(z)[np.arange(len(z)), labels]
        return right, answers_of(z)

    before, answer = read(first)
    frame, changes, answers, marked = list[tuple[Any, ...]](), [], [], []
    of_parts = predictions[predictions["condition"] == condition]
    for place, rows in of_parts.groupby(PLACE[:-1], dropna=False, sort=False):
        after, said = (np.stack(one) for one in zip(*(read(one) for _, one in rows.groupby("draw")), strict=True))
        is_marked: np.ndarray = (said != answer) | (np.abs(after - before) >= least)
        changes.append(after[0] - before)
        answers.append(said[0])
        marked.append(is_marked[0])
        turned = int((said[0] != answer).sum())
        frame.append((*place, int(is_marked[0].sum()), turned, *_beside(is_marked[0], is_marked[1:])))
    parts = pd.DataFrame(frame, columns=list(COLUMNS)).astype({"layer": "Int64", "head": "Int64"})
    examples = pd.DataFrame({"example_id": ids, "label": labels, "answer": answer, "probability": before})
    shape = len(parts), len(examples)
    every = (np.reshape(one, shape) for one in (changes, answers, marked))
    return PartMarks(examples, parts, *every)


def most_marked(marks: PartMarks, most: int) -> np.ndarray:
    """Return the places [at most `most`] of the examples that parts change most, in this order.

    Examples whose answer a part changes come first, then larger changes of the probability; no other example is in.
    """
    turned = (marks.answers != marks.examples["answer"].to_numpy()).any(axis=0)
    order = np.lexsort((-np.abs(marks.changes).max(axis=0, initial=0.0), ~turned))
    return order[np.asarray(marks.marked.any(axis=0))[order]][:most]


def _beside(mine: np.ndarray, controls: np.ndarray) -> tuple[float, float, float, float, int]:
    """Return the mean number of marked examples over `controls` [draw, example], and the share of `mine` minus theirs.

    The difference has its 95% interval, and the number of draws is last. Half an example for and half against are added
    to the variance over examples (Agresti and Min 2005): without them the interval would have no width if a part marks
    all examples and its controls none.
    """
    if not len(controls):
        return *(math.nan,) * 4, 0
    less, n = mine - np.mean(controls, axis=0), len(mine) + 2
    variance = (np.square(less).sum() + 1) / n - (less.sum() / n) ** 2
    interval = seeds_and_examples([mine.mean() - one.mean() for one in controls], math.sqrt(variance / n))
    ends = max(interval.low, -1.0), min(interval.high, 1.0)
    return float(np.sum(controls)) / len(controls), interval.value, *ends, len(controls)
