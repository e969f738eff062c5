"""The texts of a run's examples, which no run stores: read from its task's data where these are on this machine."""

from __future__ import annotations

import pandas as pd

from skillviz.errors import BadData
from skillviz.runs.run import Run
from skillviz.tasks import registry
from skillviz.tasks.splits import load
from skillviz.tasks.task import Task


def task_of(run: Run) -> Task:
    """The run's task as it is on this machine; raises what the registry raises where it is not."""
    return registry.task(run.spec.task)


def example_texts(run: Run, split: str) -> pd.DataFrame:
    """example_id, text_a and, for pairs, text_b of the examples of a split.

    All splits are read, since only together do they show that they are the run's own: raises BadData where they
    are not, or cannot be had.
    """
    spec, task = run.spec, run.record.task
    caps = {"max_train": spec.max_train, "max_validation": spec.max_validation, "max_test": spec.max_test}
    splits = load(task_of(run), k_shot=spec.k_shot, seed=spec.data_seed, **caps)
    if task is None or splits.fingerprint != task.fingerprint:
        raise BadData(
            f"the data files of the task '{spec.task}' are not those that the run was made with: they have changed "
            "since; bring the old ones back."
        )
    return getattr(splits, split).drop(columns="label")
