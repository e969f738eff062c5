"""A sequence of tasks that one model learns in turn: its answers by mode, stage and task, and the table `stages`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pandas as pd

from skillviz.analysis import stages
from skillviz.analysis.answers import Answers
from skillviz.analysis.stages import GRAFTING, INDEPENDENT, NAIVE, Stages, refuse_changed, unseen_answers
from skillviz.models.finetune.recipes import CONTINUAL
from skillviz.runs.record import TaskNote
from skillviz.runs.run import Run
from skillviz.runs.score import Score
from skillviz.studies.finetuned_model import FineTunedSpec
from skillviz.tasks import registry
from skillviz.tasks.leaks import Unseen, unseen

if TYPE_CHECKING:
    from skillviz.studies.results import Results


@dataclass(frozen=True)
class TaskSequence:
    """A sequence of tasks in each mode: answers by stage and task, without examples that another task trained on."""

    by_mode: Mapping[str, Stages]
    tasks: Mapping[str, TaskNote]
    leaks: Mapping[str, Unseen]
    order: Sequence[str]

    def table(self) -> pd.DataFrame:
        """Return the table `stages`."""
        return stages.stages(self.by_mode, self.order, self.tasks)

    def last(self, mode: str, task: str) -> Answers | None:
        """Return the answers to a task after the last stage of a mode; None if there are none."""
        by_stage = {stage: answers for (stage, name), answers in self.by_mode[mode].items() if name == task}
        return by_stage[max(by_stage)] if by_stage else None

    def sentences(self) -> list[str]:
        """Return the notes on leaked examples, and on the check of earlier tasks' logits."""
        leaks = [one.sentence for one in self.leaks.values() if one.sentence]
        if not self.by_mode[GRAFTING]:
            return leaks
        return [
            *leaks,
            "In grafting every earlier task's test logits are bit for bit the same after every later stage; checked.",
        ]


def sequence_of(scores: Mapping[str, Sequence[Score]], alone: Mapping[str, Run]) -> TaskSequence:
    """Return the sequence of these scores by mode; `alone` are the runs on a model of each task alone, by task name.

    Raises BadData if grafting changed an earlier task's logits.
    """
    every = [score for of_mode in scores.values() for score in of_mode]
    order = order_of(every)
    leaks = unseen([registry.task(file, "task") for file in dict.fromkeys(s.spec.task for s in every)])
    tasks = {place_of(score)[1]: score.record.task for score in every}
    by_mode: dict[str, Stages] = {
        mode: {
            place_of(s): unseen_answers(s.predictions(), s.record.task, leaks[place_of(s)[1]].leaked) for s in of_mode
        }
        for mode, of_mode in scores.items()
    }
    by_mode[INDEPENDENT] = {
        (number, task): unseen_answers(alone[task].predictions(), tasks[task], leaks[task].leaked)
        for number, task in enumerate(order, start=1)
        if task in alone
    }
    refuse_changed(by_mode[GRAFTING], order)
    return TaskSequence(by_mode, tasks, leaks, order)


def place_of(score: Score) -> tuple[int, str]:
    """Return the stage and the task of a stored model of the sequence."""
    *_, stage, task = PurePosixPath(score.spec.finetuned).parts
    return int(stage), task


def order_of(scores: Sequence[Score]) -> list[str]:
    """Return the tasks in the order they were learned: a task is first answered after its own stage."""
    first: dict[str, int] = {}
    for stage, task in map(place_of, scores):
        first[task] = min(stage, first.get(task, stage))
    return sorted(first, key=lambda task: first[task])


MANY_SEQUENCES = (
    "The study has several sequences of tasks in one mode, or of other tasks or training data in the other: the table "
    "`stages`, which holds one sequence in both modes, is not made; `scores` has every model after every stage."
)


def stages_and_notes(results: Results) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Return `stages` with notes, if the study has exactly one sequence of tasks, in one mode or both; else nothing."""
    by_mode: dict[str, list[FineTunedSpec]] = {NAIVE: [], GRAFTING: []}
    for spec in results.plan.finetuned:
        if spec.recipe == CONTINUAL:
            by_mode[GRAFTING if spec.regions else NAIVE].append(spec)
    every = [spec for of_mode in by_mode.values() for spec in of_mode]
    if not every:
        return {}, []
    if max(map(len, by_mode.values())) > 1 or len({(m.base, m.tasks, m.readout, m.k_shot) for m in every}) > 1:
        return {}, [MANY_SEQUENCES]
    scores = {
        mode: [score for score in results.scores(recipe=CONTINUAL, mode=mode) if score.spec.on is None]
        for mode in by_mode
    }
    if not any(scores.values()):
        return {}, []
    regions = {region.key() for spec in by_mode[GRAFTING] for region in spec.regions}
    alone = {r.record.task.name: r for r in results.runs() if r.spec.key() in regions and r.record.task}
    sequence = sequence_of(scores, alone)
    return {"stages": sequence.table()}, sequence.sentences()
