"""The margin of grafts over their nulls, over the runs of several fine-tuned models, from stored predictions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from skillviz.core.intervals import SeedsInterval
from skillviz.core.nulls import SHUFFLED, beyond_of_models
from skillviz.errors import BadData
from skillviz.runs.metrics import example_scores
from skillviz.runs.record import TaskNote
from skillviz.runs.run import Run
from skillviz.runs.tables import score_matrix


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
