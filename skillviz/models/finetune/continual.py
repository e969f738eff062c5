"""Continual learning: one task after the other, naively or by grafting (paper, section 5, Table 4)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.finetune.grid import Attempt
from skillviz.models.finetune.recipes import SGD
from skillviz.models.finetune.region_lock import RegionLock, check_region, union
from skillviz.models.finetune.run import Finetuned, FineTuning
from skillviz.models.finetune.trainable_model import TrainableModel, open_shared
from skillviz.models.finetune.training import Trainer, best_of, descend, metric_values, run_steps, shifted


def train(request: FineTuning, folder: Path) -> Finetuned:
    """Train the sequence and write the model of each learned task after each stage: `folder`/<stage>/<task name>.

    Naive (no regions): every stage trains everything, starting where the previous one ended. Grafting: stage n trains
    the entries of regions[n] that no earlier region owns, from the current values. A task's model then has the trained
    values on the union of the regions up to its own, and the base's values elsewhere. Every step checks that nothing
    else moved. With the head readout each task keeps the head of its own stage.
    """
    sequence = TaskSequence(request, folder)
    for stage in range(1, len(request.tasks) + 1):
        sequence.learn(stage)
        sequence.write(stage)
    return sequence.result()


class TaskSequence:
    """The stages of a sequence: the entries that move in each, and the models to evaluate after it."""

    def __init__(self, request: FineTuning, folder: Path) -> None:
        self.request, self.folder = request, folder
        self.settings = [request.config.settings(request.default_steps(task)) for task in request.tasks]
        self.data = request.training_data()
        self.models = open_shared(request.base, request.tasks, self.settings[0], request.device)
        self.regions = [trained.region for trained in request.regions]
        self.attempts: list[Attempt] = []
        self.scores: dict[str, dict[str, float]] = {}
        self.notes: dict[str, None] = {}
        self.touched = self.trained = 0
        for stage, region in enumerate(self.regions, start=1):  # check all regions before the first is trained
            check_region(self.models[0].table, region)
            if not self.models[stage - 1].head and not self._free(stage).size:
                raise BadInput(
                    f"every entry of the region of '{request.tasks[stage - 1].name}' is owned by an earlier task, so "
                    "there is nothing to train; give smaller regions, or another order."
                )

    def learn(self, stage: int) -> None:
        """Train the task of this stage (from 1) from the current values; the model keeps the best checked weights."""
        started, data, settings = time.perf_counter(), self.data[stage - 1], self.settings[stage - 1]
        model = self._model(stage)
        trainer, lock = Trainer(model, data, settings), model.lock
        after = None if lock is None else lambda step: lock.check(f" at step {step} of stage {stage}")
        steps = [one.steps for one in self.settings]
        on_step = shifted(self.request.on_step, sum(steps[: stage - 1]), sum(steps))
        entry = self.request.journal.begin()
        training = descend(
            model, settings, trainer.backward, trainer.check, after, skip=trainer.skip, entry=entry, merit=trainer.merit
        )  # fmt: skip
        history = run_steps(training, on_step)
        model.finish()
        value = metric_values(model, data)[data.task.metric]
        seconds = time.perf_counter() - started
        self.attempts.append(Attempt(settings, [model], history, best_of(history).step, value, seconds))

    def write(self, stage: int) -> None:
        """Write every folder of this stage: the model of each task learned so far."""
        for number in range(1, stage + 1):
            model, data = self.models[number - 1], self.data[number - 1]
            owned = union(self.regions[:number]) if self.regions else None
            size = None if owned is None else owned.size
            name = data.task.name
            with answering(model, owned):
                report = self.request.write(
                    self.folder / str(stage) / name, model, data, self.attempts[-1], trained=size,
                    others={**self._record(stage, number), "union": size}, notes=(self._note(stage, number),),
                )  # fmt: skip
            self.scores |= {f"stage {stage}, {name} {split}": values for split, values in report.scores.items()}
            self.notes |= dict.fromkeys(report.notes)
            self.touched, self.trained = report.touched, report.trained

    def result(self) -> Finetuned:
        """Return the result of the whole sequence."""
        out, names = self.request.out, [data.task.name for data in self.data]
        stages = [(stage, name) for stage in range(1, len(names) + 1) for name in names[:stage]]
        history = tuple(record for attempt in self.attempts for record in attempt.history)
        return Finetuned(
            out, history, self.attempts[-1].best_step, self.scores, tuple(self.notes),
            time.perf_counter() - self.request.started, self.touched, self.trained,
            folders={f"{stage}/{name}": out / str(stage) / name for stage, name in stages},
        )  # fmt: skip

    @property
    def mode(self) -> str:
        """naive or grafting."""
        return "grafting" if self.regions else "naive"

    def _model(self, stage: int) -> TrainableModel:
        """Return the stage's model; when grafting, with all but its own new entries locked."""
        model = self.models[stage - 1]
        if not self.regions:
            return model
        free = self._free(stage)
        parameters = dict(model.model.named_parameters())
        lock = RegionLock(parameters, model.table, free)
        for name in model.table.names:
            parameters[name].requires_grad_(name in free.indices)
        moving = [p for name, p in parameters.items() if name in free.indices or name in model.head]
        return replace(model, trained=moving, lock=lock)

    def _free(self, stage: int) -> Region:
        """Return the entries of the stage's region that no earlier stage owns."""
        region = self.regions[stage - 1]
        return region - union(self.regions[: stage - 1]) if stage > 1 else region

    def _record(self, stage: int, number: int) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "stage": stage,
            "learned_in_stage": number,
            "tasks": [data.task.name for data in self.data],
            "optimizer": self.request.config.optimizer or SGD,
            **({"regions": [trained.record() for trained in self.request.regions[:stage]]} if self.regions else {}),
        }

    def _note(self, stage: int, number: int) -> str:
        names = ", ".join(data.task.name for data in self.data[:stage])
        how = (
            f"trained values on the union of the first {number} regions, the base's elsewhere"
            if self.regions
            else "everything trained at every stage"
        )
        return f"Continual learning ({self.mode}), after stage {stage} ({names}): {how}."


@contextmanager
def answering(model: TrainableModel, owned: Region | None) -> Iterator[None]:
    """In the body, the model has its task's values, with the base outside `owned`; then they are restored."""
    if owned is None:
        yield
        return
    parameters = {name: model.model.get_parameter(name) for name in model.table.names}
    now = {name: p.detach().clone() for name, p in parameters.items()}
    try:
        with torch.no_grad():
            for name, p in parameters.items():
                p.copy_(torch.where(torch.from_numpy(owned.mask(name)).to(p.device), p, model.start[name]))
        yield
    finally:
        with torch.no_grad():
            for name, p in parameters.items():
                p.copy_(now[name])
