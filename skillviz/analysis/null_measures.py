"""Measures that may separate a graft from its nulls, all on the same stored predictions, each with an interval.

The search optimizes accuracy and loss: it chose entries by labels. The last three measures instead compare a model with
the fine-tuned model: they test whether it gives the same answers, errors included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd

from skillviz.core.intervals import SeedsInterval
from skillviz.core.nulls import SHUFFLED, beyond_null, beyond_of_models
from skillviz.core.scores import correct, losses, probabilities
from skillviz.core.temperature import scaled, temperature_fit
from skillviz.errors import BadData
from skillviz.runs.metrics import example_scores
from skillviz.runs.record import TaskNote
from skillviz.runs.run import Run
from skillviz.runs.tables import score_matrix

POINTS, NATS, PLAIN = "points", "nats", ""
SHARED_PROBABILITY, SHARED_ERRORS = "shared probability", "shared errors"
COLUMNS = ("measure", "graft", "null", "beyond", "low", "high", "standard_errors", "examples", "draws")
FIVE = 5
"""The fewest errors of the fine-tuned model for which a share of them is computed."""


@dataclass(frozen=True)
class Predictions:
    """One model's logits [n, label] on the examples, and the same after temperature scaling; None if no temperature
    can be fitted on validation."""

    logits: np.ndarray
    scaled: np.ndarray | None


class Reference(NamedTuple):
    """The reference for all models: labels [n], and the fine-tuned model's logits [n, label]."""

    labels: np.ndarray
    tuned: np.ndarray


Score = Callable[[Predictions, Reference], np.ndarray | None]


class Measure(NamedTuple):
    """A score of each example, higher is better, None if it is not defined; its unit and its meaning."""

    score: Score
    unit: str
    meaning: str


def _scaled_brier(model: Predictions, reference: Reference) -> np.ndarray | None:
    if model.scaled is None:
        return None
    p = probabilities(model.scaled)
    return -((p - np.eye(p.shape[1])[reference.labels]) ** 2).sum(axis=1)


def _agreement(model: Predictions, reference: Reference) -> np.ndarray:
    return (model.logits.argmax(axis=1) == reference.tuned.argmax(axis=1)).astype(np.float64)


def _shared_errors(model: Predictions, reference: Reference) -> np.ndarray | None:
    wrong = ~correct(reference.tuned, reference.labels).astype(bool)
    return _agreement(model, reference)[wrong] if wrong.sum() >= FIVE else None


MEASURES: Mapping[str, Measure] = MappingProxyType({
    "accuracy": Measure(
        lambda model, reference: correct(model.logits, reference.labels).astype(np.float64), POINTS,
        "answers that are right",
    ),
    "NLL": Measure(
        lambda model, reference: -losses(model.logits, reference.labels), NATS, "loss of the right answer"
    ),
    "NLL, scaled": Measure(
        lambda model, reference: None if model.scaled is None else -losses(model.scaled, reference.labels), NATS,
        "loss of the right answer, each model at its own temperature",
    ),
    "Brier score, scaled": Measure(
        _scaled_brier, PLAIN, "squared error of the probabilities, each model at its own temperature"
    ),
    "agreement": Measure(_agreement, POINTS, "answers that are the fine-tuned model's"),
    SHARED_PROBABILITY: Measure(
        lambda model, reference: np.minimum(probabilities(model.logits), probabilities(reference.tuned)).sum(axis=1),
        POINTS, "probability that lies on the same answer as the fine-tuned model's"
    ),
    SHARED_ERRORS: Measure(
        _shared_errors, POINTS, "errors of the fine-tuned model that are made too, with the same answer"
    ),
})  # fmt: skip
"""Measures by name. Shared probability is 1 minus the total variation distance of the two models' probabilities."""


def by_measure(run: Run, split: str = "test", kind: str = SHUFFLED) -> pd.DataFrame:
    """One row per measure: the mean score of the graft and of its nulls of a kind, their difference with a 95% interval
    over examples and draws, and that difference in standard errors.

    Empty for a run without such nulls, and for a task without classes. The temperature of each model is fitted on its
    validation predictions.
    """
    rows = list(_rows(run, split, kind))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _rows(run: Run, split: str, kind: str) -> Iterator[dict[str, object]]:
    task, nulls = run.record.task, run.nulls()
    nulls = nulls[nulls["null"] == kind]
    if task is None or nulls.empty or not task.has_classes:
        return
    tuned, grafts = (_of_state(run, state, split, nulls) for state in ("finetuned", "grafted"))
    reference = Reference(*tuned[split])
    graft = _predictions(grafts, split)
    drawn = [_predictions(_by_split(rows, run), split) for _, rows in nulls.groupby("draw")]
    for name, measure in MEASURES.items():
        scored = [score for one in (graft, *drawn) if (score := measure.score(one, reference)) is not None]
        if len(scored) <= len(drawn):
            continue
        own, *others = scored
        found = beyond_null(own, np.stack(others))
        error = (found.high - found.low) / (2 * 1.959964)
        yield {
            "measure": name, "graft": own.mean(), "null": float(np.mean(others)), "beyond": found.value,
            "low": found.low, "high": found.high, "standard_errors": found.value / error if error else np.nan,
            "examples": len(own), "draws": len(others),
        }  # fmt: skip


def _by_split(rows: pd.DataFrame, run: Run) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Labels [n] and logits [n, label] by split."""
    return {
        str(split): (part["label"].to_numpy(), score_matrix(part, run.labels)) for split, part in rows.groupby("split")
    }


def _of_state(run: Run, state: str, split: str, nulls: pd.DataFrame) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Labels and logits by split for a state of the run, on the examples of its nulls and in their order."""
    first = nulls[nulls["draw"] == nulls["draw"].min()]
    found = {}
    for name in first["split"].unique():
        ids, labels, logits = run.logits(state, name)
        place = {example: row for row, example in enumerate(ids)}
        rows = [place[example] for example in first.loc[first["split"] == name, "example_id"] if example in place]
        found[name] = labels[rows], logits[rows]
    return found


def _predictions(model: Mapping[str, tuple[np.ndarray, np.ndarray]], split: str) -> Predictions:
    logits = model[split][1]
    if "validation" not in model or split == "validation":
        return Predictions(logits, None)
    labels, of_validation = model["validation"]
    fit = temperature_fit(of_validation, labels)
    return Predictions(logits, None if fit.at_bound else scaled(logits, fit.value))


def beyond_of_runs(runs: Sequence[Run], split: str, kind: str = SHUFFLED) -> dict[str, SeedsInterval]:
    """The margin by which the grafts of these runs, one per fine-tuned model, beat their nulls of a kind: in accuracy
    and in nats, with 95% intervals over models, draws and examples.

    Raises BadData if a run has no such null or was scored on other examples.
    """
    tables = [_scores(run, split, kind) for run in runs]
    if any(ids != tables[0][0] for ids, _, _ in tables):
        raise BadData("the runs were scored on other examples, so their nulls cannot be joined.")
    names = tables[0][1]
    return {name: beyond_of_models([t[1][name] for t in tables], [t[2][name] for t in tables]) for name in names}


def _scores(run: Run, split: str, kind: str) -> tuple[list[str], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Ids of the examples, and the scores of the graft [n] and of its nulls [draw, n] by name."""
    task, nulls, own = run.record.task, run.nulls(), run.predictions()
    nulls = nulls[(nulls["split"] == split) & (nulls["null"] == kind)]
    own = own[(own["split"] == split) & (own["state"] == "grafted")]
    if task is None or nulls.empty or own.empty:
        raise BadData(f"run {run.id} has no null '{kind}' on its {split} set; localize --nulls makes one.")
    drawn = [_by_example(rows, task, run) for _, rows in nulls.groupby("draw")]
    grafts = _by_example(own, task, run)
    return list(own["example_id"]), grafts, {name: np.stack([one[name] for one in drawn]) for name in grafts}


def _by_example(rows: pd.DataFrame, task: TaskNote, run: Run) -> dict[str, np.ndarray]:
    labels, logits = rows["label"].to_numpy(), score_matrix(rows, run.labels)
    return {name: score(logits, labels) for name, score in example_scores(task).items()}
