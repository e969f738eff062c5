"""The table `stages`: tasks after every stage of continual learning; with grafting, earlier answers do not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from skillviz.analysis.answers import Answers, answers_of_state
from skillviz.analysis.observations import TEST
from skillviz.analysis.tables import check
from skillviz.core.intervals import Interval, metric_difference, metric_interval
from skillviz.core.metrics import metric_names
from skillviz.errors import BadData
from skillviz.runs.metrics import positive
from skillviz.runs.record import TaskNote

NAIVE, GRAFTING, INDEPENDENT = MODES = ("naive", "grafting", "independent")


Stages = Mapping[tuple[int, str], Answers]
"""For one mode: the answers to a task's unseen test examples, by stage (from 1) and task name."""


def unseen_answers(
    predictions: pd.DataFrame, task: TaskNote, seen: frozenset[str], state: str = "finetuned"
) -> Answers:
    """The answers in a table of predictions on the task's own test set in this state, without the examples `seen`."""
    answers = answers_of_state(predictions[predictions["dataset"] == task.name], TEST, task.labels, state)
    return answers.take(~np.isin(answers.ids, list(seen)))


def stages(by_mode: Mapping[str, Stages], order: Sequence[str], tasks: Mapping[str, TaskNote]) -> pd.DataFrame:
    """One row per mode, stage, task and metric, with the paired change since the task's own stage.

    `order` lists the tasks as they were learned, `tasks` their notes by name.
    """
    rows = []
    for mode, by_stage in by_mode.items():
        for (stage, name), answers in sorted(by_stage.items()):
            first, task = by_stage.get((order.index(name) + 1, name)), tasks[name]
            place = {"mode": mode, "stage": stage, "stage_task": order[stage - 1], "task": name}
            for metric in metric_names(task.metric, ("accuracy", "ece")):
                change = difference(answers, first, metric, task) if first else Interval(np.nan, np.nan, np.nan)
                ends = {f"change_{name}": number for name, number in change._asdict().items()}
                ends["change"] = ends.pop("change_value")
                values = metric_interval(answers.logits, answers.labels, metric, positive=positive(task))
                rows.append({**place, "metric": metric, **values._asdict(), **ends, "n": len(answers.labels)})
    return check(pd.DataFrame(rows).drop(columns=["gained", "lost"]), "stages")  # of a value of one model


def difference(a: Answers, b: Answers, metric: str, task: TaskNote) -> Interval:
    """a - b on the same examples; raises BadData if the examples differ."""
    _refuse_unlike(a, b, task.name)
    return metric_difference(a.logits, b.logits, a.labels, metric, positive=positive(task))


def refuse_changed(by_stage: Stages, order: Sequence[str]) -> None:
    """Raises BadData if an earlier task's logits after a later stage differ in any bit from those right after its own
    stage.

    With grafting this cannot happen: later training moves no entry of an earlier task's model.
    """
    for (stage, task), answers in sorted(by_stage.items()):
        first = by_stage.get((order.index(task) + 1, task))
        if first is None or first is answers:
            continue
        _refuse_unlike(answers, first, task)
        changed = int((answers.logits != first.logits).any(axis=1).sum())
        if changed:
            other = int((answers.logits.argmax(axis=1) != first.logits.argmax(axis=1)).sum())
            raise BadData(
                f"after stage {stage} the grafting model answers {changed:,} of {len(answers.ids):,} test examples of "
                f"'{task}' otherwise than after its own stage (other logits; {other:,} other predictions), which later "
                "training must not change; the stored stages are wrong: delete the folder of the fine-tuned model and "
                "run the study again."
            )


def _refuse_unlike(a: Answers, b: Answers, task: str) -> None:
    if not np.array_equal(a.ids, b.ids) or not np.array_equal(a.labels, b.labels):
        raise BadData(f"'{task}' was not scored on the same test examples at both stages; score it again.")
