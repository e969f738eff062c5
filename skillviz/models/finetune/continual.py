"""Continual learning: one task after the other, naively or by grafting (paper, section 5, Table 4)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from skillviz.atomic import whole_folder
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.applied import refuse_full_folder
from skillviz.models.device import pick
from skillviz.models.finetune.grid import Attempt, Tell
from skillviz.models.finetune.model_folder import write_folder
from skillviz.models.finetune.recipes import check_use
from skillviz.models.finetune.retrain import about, check_region, hold, union
from skillviz.models.finetune.shared_body import check_tasks, open_together
from skillviz.models.finetune.single_task import Finetuned, report_of
from skillviz.models.finetune.trainer import Trainee
from skillviz.models.finetune.training import Pupil, TrainStep, best_of, descend
from skillviz.models.finetune.training_config import Recipe, make_recipe
from skillviz.models.finetune.training_data import DataPlan, Material, materials
from skillviz.tasks.task import Task


def finetune_sequence(
    base: str,
    tasks: Sequence[Task],
    *,
    out: Path | str,
    regions: Sequence[Region] | None = None,
    region_runs: Sequence[str | None] = (),
    readout: str = "head",
    head: str = "own",
    steps: int | None = None,
    batch_size: int = 8,
    lr: float | None = None,
    seed: int = 0,
    optimizer: str = "sgd",
    k_shot: int | None = None,
    data_seed: int = 0,
    max_train: int | None = None,
    max_validation: int | None = None,
    max_test: int | None = None,
    evaluate_test: bool = False,
    device: str = "auto",
    overwrite: bool = False,
    command: str | None = None,
    progress: Callable[[TrainStep], None] | None = None,
) -> Finetuned:
    """The model that answers each task after each stage, in `out`/<stage>/<task name>/ for every task learned by then.

    Naive (no regions): every stage trains everything from where the last one ended. Grafting: stage n trains the
    entries of regions[n] that no earlier region owns, from the current values; a task is answered with the trained
    values on the union of the regions up to its own, and the base's elsewhere. On every step it is looked that nothing
    else moved. With the head readout each task keeps the head of its own stage. `steps` is that of each stage.
    `region_runs` are the ids of the runs that found the regions.
    """
    started, out = time.perf_counter(), Path(out)
    mode = "naive" if regions is None else "grafting"
    check_use("continual", tasks=len(tasks), regions=len(regions or ()), mode=mode, lr=lr, optimizer=optimizer)
    check_tasks(tasks)
    recipes = [
        make_recipe(
            readout, len(task.labels), k_shot, steps, lr, batch_size, seed, head=head, name="continual",
            optimizer=optimizer,
        )
        for task in tasks
    ]  # fmt: skip
    chosen = pick(device)
    names = region_runs or [None] * len(tasks)
    told = [about(region, run) for region, run in zip(regions or (), names, strict=False)]
    refuse_full_folder(out, overwrite, base)
    with whole_folder(out.absolute(), replace=True) as part:
        plan = DataPlan(k_shot, data_seed, max_train, max_validation, max_test, evaluate_test)
        learned = materials(tasks, plan, readout)
        trainees = open_together(base, learned, recipes[0], chosen)
        course = Course(part, learned, trainees, regions, {"command": command, "optimizer": optimizer, "regions": told})
        tell = _told(progress, [recipe.steps for recipe in recipes])
        for stage, recipe in enumerate(recipes, start=1):
            course.learn(stage, recipe, partial(tell, stage))
            course.write(stage, started)
        return course.told(out, started)


class Course:
    """The stages of a sequence: what moves in each, and the models that answer after it."""

    def __init__(
        self, part: Path, learned: list[Material], trainees: list[Trainee], regions: Sequence[Region] | None,
        about: dict[str, Any],
    ) -> None:  # fmt: skip
        self.part, self.learned, self.trainees, self.about = part, learned, trainees, about
        self.regions = None if regions is None else list(regions)
        self.mode = "naive" if regions is None else "grafting"
        self.attempts: list[Attempt] = []
        self.scores: dict[str, dict[str, float]] = {}
        self.notes: dict[str, None] = {}
        self.touched = self.trained = 0
        for stage, region in enumerate(regions or (), start=1):  # all are looked at before the first is trained
            check_region(trainees[0].table, region)
            if not trainees[stage - 1].head and not self._free(stage).size:
                raise BadInput(
                    f"every entry of the region of '{learned[stage - 1].task.name}' is owned by an earlier task, so "
                    "there is nothing to train; give smaller regions, or another order."
                )

    def learn(self, stage: int, recipe: Recipe, tell: Tell) -> None:
        """Trains the task of this stage (from 1) from the current values; its best check is then in the model."""
        started, trainee = time.perf_counter(), self._ready(stage)
        pupil = Pupil(trainee, self.learned[stage - 1].lesson(trainee.tokenizer), recipe)
        guard = trainee.hold
        after = None if guard is None else lambda step: guard.check(f" at step {step} of stage {stage}")
        history: list[TrainStep] = []
        for record in descend(trainee, recipe, pupil.backward, pupil.check, after):
            history.append(record)
            tell(record)
        trainee.finish()
        value = self.learned[stage - 1].scores(trainee)[pupil.lesson.metric]
        seconds = time.perf_counter() - started
        self.attempts.append(Attempt(recipe, trainee, history, best_of(history).step, value, seconds))

    def write(self, stage: int, started: float) -> None:
        """Every folder of this stage: the model of each task learned so far."""
        for number in range(1, stage + 1):
            trainee, material = self.trainees[number - 1], self.learned[number - 1]
            owned = None if self.regions is None else union(self.regions[:number])
            others = {**self._about(stage, number), "union": None if owned is None else owned.size}
            with answering(trainee, owned):
                report = report_of(
                    trainee, material, self.attempts[-1], started, command=self.about["command"], others=others,
                    notes=(self._note(stage, number),), trained=None if owned is None else owned.size,
                )  # fmt: skip
                name = material.task.name
                write_folder(self.part / str(stage) / name, trainee, report, self.attempts[-1].history, False)
            self.scores |= {f"stage {stage}, {name} {split}": values for split, values in report.scores.items()}
            self.notes |= dict.fromkeys(report.notes)
            self.touched, self.trained = report.touched, report.trained

    def told(self, out: Path, started: float) -> Finetuned:
        """What came out of the whole sequence."""
        names = [material.task.name for material in self.learned]
        stages = [(stage, name) for stage in range(1, len(names) + 1) for name in names[:stage]]
        members = {f"{stage}/{name}": out / str(stage) / name for stage, name in stages}
        history = tuple(record for found in self.attempts for record in found.history)
        return Finetuned(
            out, history, self.attempts[-1].best_step, self.scores, tuple(self.notes), time.perf_counter() - started,
            self.touched, self.trained, members=members,
        )  # fmt: skip

    def _ready(self, stage: int) -> Trainee:
        """The stage's trainee; by grafting, with all but its own new entries held where they are."""
        trainee = self.trainees[stage - 1]
        if self.regions is None:
            return trainee
        free = self._free(stage)
        parameters = dict(trainee.model.named_parameters())
        guard = hold(parameters, trainee.table, free)
        for name in trainee.table.names:
            parameters[name].requires_grad_(name in free.indices)
        moving = [p for name, p in parameters.items() if name in free.indices or name in trainee.head]
        return replace(trainee, trained=moving, hold=guard)

    def _free(self, stage: int) -> Region:
        """The entries of the stage's region that no earlier stage owns."""
        assert self.regions is not None
        own = self.regions[stage - 1]
        return own - union(self.regions[: stage - 1]) if stage > 1 else own

    def _about(self, stage: int, number: int) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "stage": stage,
            "learned_in_stage": number,
            "tasks": [material.task.name for material in self.learned],
            "optimizer": self.about["optimizer"],
            **({"regions": self.about["regions"][:stage]} if self.regions is not None else {}),
        }

    def _note(self, stage: int, number: int) -> str:
        names = ", ".join(material.task.name for material in self.learned[:stage])
        how = (
            "everything trained at every stage"
            if self.regions is None
            else f"trained values on the union of the first {number} regions, the base's elsewhere"
        )
        return f"Continual learning ({self.mode}), after stage {stage} ({names}): {how}."


@contextmanager
def answering(trainee: Trainee, owned: Region | None) -> Iterator[None]:
    """Inside, the model is the one that answers its task: the base outside `owned`. The values come back after."""
    if owned is None:
        yield
        return
    parameters = {name: trainee.model.get_parameter(name) for name in trainee.table.names}
    now = {name: p.detach().clone() for name, p in parameters.items()}
    try:
        with torch.no_grad():
            for name, p in parameters.items():
                p.copy_(torch.where(torch.from_numpy(owned.mask(name)).to(p.device), p, trainee.start[name]))
        yield
    finally:
        with torch.no_grad():
            for name, p in parameters.items():
                p.copy_(now[name])


def _told(progress: Tell | None, steps: Sequence[int]) -> Callable[[int, TrainStep], None]:
    """Tells the steps of a stage as steps of the whole sequence."""

    def tell(stage: int, record: TrainStep) -> None:
        if progress is not None:
            progress(replace(record, step=record.step + sum(steps[: stage - 1]), steps=sum(steps)))

    return tell
