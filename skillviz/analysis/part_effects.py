"""The effect of each part of a region: the change in a metric if it alone is grafted, and if it alone is left out.

`part_marks` has the same of each example: whether a part changes it, and how many its random controls change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.generation import token_probability
from skillviz.core.intervals import paired_differences, whole_and_resampled
from skillviz.core.metrics import statistic
from skillviz.core.region_parts import ALONE, WITHOUT
from skillviz.core.scores import predictions as answers_of
from skillviz.core.scores import probabilities
from skillviz.core.seeds_interval import seeds_and_examples
from skillviz.runs.metrics import positive
from skillviz.runs.part_scores import ENDS
from skillviz.runs.record import TaskNote
from skillviz.runs.tables import score_matrix

REFERENCE = dict(zip((ALONE, WITHOUT), ENDS, strict=True))
"""The model that a graft is compared with: the base if the part is alone, the whole graft if the part is left out."""
COLUMNS = (
    "layer", "kind", "head", "size", "condition", "n", "value", "low", "high", "gained", "lost",
    "control", "excess", "excess_low", "excess_high", "draws",
)  # fmt: skip
MARK_COLUMNS = (*COLUMNS[:4], "changed", "answers", "control", "value", "low", "high", "seeds")
PLACE = ["layer", "kind", "head", "size", "condition"]


def part_effects(predictions: pd.DataFrame, task: TaskNote, metric: str) -> pd.DataFrame:
    """One row per part and condition, from the table PARTS of `runs.part_scores`.

    `value` is the metric of the graft less that of REFERENCE on the same examples, with its paired interval; of shares
    only `gained` examples are right in the graft alone, `lost` in REFERENCE alone.
    `control` is the mean of the same over the random controls, and `excess` is value - control with an interval over
    the draws and the examples; missing where no control could be drawn.
    """
    groups: list[tuple[Any, pd.DataFrame]] = list(predictions.groupby([*PLACE, "draw"], dropna=False, sort=False))
    if not groups:
        return pd.DataFrame(columns=list(COLUMNS))
    first = groups[0][1]
    labels, examples = first["label"].to_numpy(), first["example_id"].tolist()
    if any(rows["example_id"].tolist() != examples for _, rows in groups):
        raise ValueError("the parts were not scored on the same examples in the same order")
    scored = [score_matrix(rows, task.labels).astype(np.float64) for _, rows in groups]
    drawn = whole_and_resampled([statistic(metric, z, labels, positive(task)) for z in scored], len(labels))
    keys = [tuple(None if pd.isna(value) else value for value in key) for key, _ in groups]
    known, logits = dict(zip(keys, drawn, strict=True)), dict(zip(keys, scored, strict=True))
    ends = {key[4]: key for key in known if key[4] in ENDS}
    rows = []
    for condition, end in REFERENCE.items():
        reference = ends[end]
        parts = [key for key in known if key[4] == condition and not key[5]]
        less = paired_differences(
            logits[reference], [logits[key] for key in parts], labels, [metric], positive=positive(task)
        )
        for key, interval in zip(parts, less, strict=True):
            controls = [values for other, values in known.items() if other[:5] == key[:5] and other[5]]
            rows.append(
                {**dict(zip(PLACE, key, strict=False)), "n": len(labels), **interval[metric]._asdict(),
                 "control": np.mean([one - known[reference][0] for one, _ in controls]) if controls else np.nan,
                 "draws": len(controls),
                 **excess(*known[key], controls)}
            )  # fmt: skip
    frame = pd.DataFrame(rows).reindex(columns=list(COLUMNS))
    return frame.astype(dict.fromkeys(("layer", "head", "gained", "lost"), "Int64"))


def changed_predictions(
    predictions: pd.DataFrame, task: TaskNote, place: tuple[float | None, str, float | None], condition: str
) -> pd.DataFrame:
    """The examples whose prediction a part changes: example_id, label, before, after; corrected ones first.

    `place` is the part's layer, kind and head; `before` is the class predicted by REFERENCE, `after` by the part's
    graft.
    """
    rows = predictions[(predictions["condition"] == condition) & (predictions["draw"] == 0)]
    for name, value in zip(PLACE, place, strict=False):
        rows = rows[rows[name].isna() if value is None or pd.isna(value) else (rows[name] == value).fillna(False)]
    of_end = predictions[predictions["condition"] == REFERENCE[condition]]
    before, after = (score_matrix(one, task.labels).argmax(axis=1) for one in (of_end, rows))
    frame = rows[["example_id", "label"]].reset_index(drop=True).assign(before=before, after=after)
    turned = frame[frame["before"] != frame["after"]]
    order = (turned["after"] != turned["label"]).astype(int) + (turned["before"] == turned["label"])
    return turned.loc[order.sort_values(kind="stable").index].reset_index(drop=True)


def excess(value: float, resampled: np.ndarray, controls: list[tuple[float, np.ndarray]]) -> dict[str, Any]:
    """The part minus its controls, with an interval over draws and examples together."""
    if not controls:
        return {"excess": np.nan, "excess_low": np.nan, "excess_high": np.nan}
    mean = np.mean([draws for _, draws in controls], axis=0)
    interval = seeds_and_examples([value - control for control, _ in controls], float((resampled - mean).std(ddof=1)))
    return {"excess": interval.value, "excess_low": interval.low, "excess_high": interval.high}


@dataclass(frozen=True)
class PartMarks:
    """The change of each example by each part, in the order of the rows of `parts` and `examples`.

    `examples` has example_id, label, answer (a number) and probability (of the right answer, 0..1) in REFERENCE.
    `changes` float64 [part, example] is the rise of that probability by the part's graft, `answers` its answer, and
    `marked` is True if the answer is another one or the probability changes by `least` or more.

    `parts` has MARK_COLUMNS: the number of marked examples (`changed`), of other `answers` among them, and the mean
    number of marked examples over the random controls (`control`). `value` is the share of marked examples minus the
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
    frame, each = list[tuple[Any, ...]](), []
    of_parts = predictions[predictions["condition"] == condition]
    for place, rows in of_parts.groupby(PLACE[:-1], dropna=False, sort=False):
        after, said = (np.stack(one) for one in zip(*(read(one) for _, one in rows.groupby("draw")), strict=True))
        is_marked: np.ndarray = (said != answer) | (np.abs(after - before) >= least)
        each.append((after[0] - before, said[0], is_marked[0]))
        counts = int(is_marked[0].sum()), int((said[0] != answer).sum())
        frame.append((*place, *counts, *_beside(is_marked[0], is_marked[1:])))
    parts = pd.DataFrame(frame, columns=list(MARK_COLUMNS)).astype({"layer": "Int64", "head": "Int64"})
    examples = pd.DataFrame({"example_id": ids, "label": labels, "answer": answer, "probability": before})
    return PartMarks(examples, parts, *(np.array(every) for every in zip(*each, strict=True)))


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
