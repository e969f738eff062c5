"""The texts of a run's examples, which no run stores: read from its task's data where these are on this machine."""

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
    """The run's task as it is on this machine; raises what the registry raises where it is not."""
    return registry.task(run.spec.task)


def example_texts(run: Run, split: str) -> pd.DataFrame:
    """example_id, text_a, for pairs text_b, and options or reference where there are any, of the examples of a split.

    All splits are read, since only together do they show that they are the run's own: raises BadData where they
    are not, or cannot be had.
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
    """What is known of the examples of a split beside their class, indexed by example id: `words`, then the columns
    of the task's source other than text and label.

    `words` is the length of the texts. A source's own column of that name, or called `class`, gets ` (data)` behind
    its name. Raises what `example_texts` raises.
    """
    texts = example_texts(run, split).set_index("example_id").drop(columns=[OPTIONS, REFERENCE], errors="ignore")
    columns = other_columns(task_of(run), texts.index.tolist())
    columns = columns.rename(columns={name: f"{name} (data)" for name in (CLASS, WORDS)})
    columns.insert(0, WORDS, [len(" ".join(row).split()) for row in texts.to_numpy(str)])
    return columns
