"""What any union of tasks' regions gives one of the tasks: accuracy of the three models, and the relative gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skillviz.errors import BadInput
from skillviz.live.request import Answer, Asked
from skillviz.live.transfer import scoring_note
from skillviz.models.predict import predict
from skillviz.runs.session import expanded
from skillviz.studies.several import Scored, relative_gain
from skillviz.studies.stages import Answers, estimate
from skillviz.tasks import registry
from skillviz.tasks.leaks import unseen

STATES = ("pretrained", "grafted", "finetuned")


def union(asked: Asked, region: Mapping[str, Any], among: Sequence[str] = (), sample: int | None = None) -> Answer:
    """The pair's task scored at the base, at the region's graft and at the fine-tuned model, with the relative gain.

    `region` is a recipe, such as {"union": [{"run": ...}, ...]}. `among` are the tasks that the fine-tuned model was
    trained on: test examples that stand in another one's training data are left out (`left_out`). `scores` is by
    state: value, low, high of the task's metric; `gain` the same of Eq. 5, None where fine-tuning gains nothing.
    """
    chosen, encoded = asked.region(region), asked.examples("test", sample)
    seen = _seen(asked, tuple(among))
    rows = np.array([row for row, name in enumerate(encoded.ids) if name not in seen], dtype=np.int64)
    if not len(rows):
        raise BadInput(f"every test example of '{asked.task.name}' stands in another task's training data.")
    kept, note = encoded.take(rows), scoring_note(asked)
    logits = {state: predict(asked.pair, kept, state, chosen) for state in STATES}
    ids = np.array(kept.ids, dtype=object)
    told = {state: Answers(note, ids, kept.labels, z.astype(np.float64)) for state, z in logits.items()}
    found = Scored(note, kept.labels, logits["pretrained"], logits["finetuned"])
    gain = relative_gain(found, [logits["grafted"]])
    return {
        "task": asked.task.name, "metric": note.metric, "size": chosen.size, "share": chosen.share, "n": len(rows),
        "left_out": len(encoded.ids) - len(rows),
        "scores": {state: estimate(own, note.metric) for state, own in told.items()},
        "gain": gain._asdict() if np.isfinite(gain.value) else None,
    }  # fmt: skip


def _seen(asked: Asked, among: tuple[str, ...]) -> frozenset[str]:
    """The ids of the task's test examples that stand in the training data of one of the other tasks."""
    if not among:
        return frozenset()
    tasks = {task.name: task for task in (registry.task(expanded(name, "task")) for name in among)}
    tasks[asked.task.name] = asked.task
    return asked.worker.once(("unseen", *sorted(tasks)), lambda: unseen(list(tasks.values())))[asked.task.name].seen
