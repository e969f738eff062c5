"""The texts of a run's examples, which no run stores. They are read from the task's data if it is on this machine."""

from __future__ import annotations

import pandas as pd

from skillviz.errors import BadData
from skillviz.runs.run import Run
from skillviz.tasks import registry
from skillviz.tasks.source import OPTIONS, REFERENCE, other_columns
from skillviz.tasks.splits import load
from skillviz.tasks.task import Task

CLASS, WORDS = "class", "words"


def task_of(run: Run) -> Task:
    """Return the run's task as it is on this machine; raises the registry's errors if it is not there."""
    return registry.task(run.spec.task)


def example_texts(run: Run, split: str) -> pd.DataFrame:
    """Return a split's examples: example_id, text_a, text_b for pairs, and options or reference if there are any.

    All splits are read, because only together do they show that they are the run's own. Raises BadData if they are not,
    or cannot be read.
    """
    spec, task = run.spec, run.record.task
    caps = {"max_train": spec.max_train, "max_validation": spec.max_validation, "max_test": spec.max_test}
    splits = load(task_of(run), k_shot=spec.k_shot, seed=spec.data_seed, **caps)
    if task is None or splits.fingerprint != task.fingerprint:
        raise BadData(
            f"the data files of the task '{spec.task}' are not those that the run was made with: they have changed "
            "since; restore the old ones."
        )
    return getattr(splits, split).drop(columns="label")


def example_columns(run: Run, split: str) -> pd.DataFrame:
    """Return further columns of the examples of a split, by example id: `words`, then the source's own columns.

    Text and label are not included. `words` is the length of the texts. If the source has a column named `words` or
    `class`, ` (data)` is added to its name. Raises the errors of `example_texts`.
    """
    texts = example_texts(run, split).set_index("example_id").drop(columns=[OPTIONS, REFERENCE], errors="ignore")
    columns = other_columns(task_of(run), texts.index.tolist())
    columns = columns.rename(columns={name: f"{name} (data)" for name in (CLASS, WORDS)})
    columns.insert(0, WORDS, [len(" ".join(row).split()) for row in texts.to_numpy(str)])
    return columns
