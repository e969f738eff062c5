"""Multi-task training: one body on several tasks, each step a batch of a random one (paper, section 5, Figure 8)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from skillviz.atomic import whole_folder
from skillviz.models.applied import refuse_full_folder
from skillviz.models.device import pick
from skillviz.models.finetune.grid import Attempt, Searched, Tell, points, search
from skillviz.models.finetune.model_folder import write_folder
from skillviz.models.finetune.recipes import check_use
from skillviz.models.finetune.shared_body import check_tasks, open_together, together
from skillviz.models.finetune.single_task import Finetuned, report_of
from skillviz.models.finetune.trainer import Trainee
from skillviz.models.finetune.training import Pupil, TrainStep, best_of, descend
from skillviz.models.finetune.training_config import Recipe, default_steps, make_recipe
from skillviz.models.finetune.training_data import DataPlan, Material, materials
from skillviz.tasks.task import Task


def finetune_tasks(
    base: str,
    tasks: Sequence[Task],
    *,
    out: Path | str,
    readout: str = "head",
    head: str = "own",
    steps: int | None = None,
    batch_size: int = 8,
    lr: float | None = None,
    seed: int = 0,
    optimizer: str = "sgd",
    grid: str | None = None,
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
    """A model for each task in `out`/<task name>/: one body, and with the head readout a head of its own for each.

    Each step takes a batch of one task, drawn by the seed; `steps` default to the sum of the tasks' own, and the check
    with the best mean validation metric is kept. A task's training set loses the texts of another's test or validation
    set. `optimizer` is one of recipes.OPTIMIZERS.
    """
    started, out = time.perf_counter(), Path(out)
    check_use("multi-task", tasks=len(tasks), grid=grid, lr=lr, optimizer=optimizer)
    check_tasks(tasks)
    total = sum(default_steps(len(task.labels), k_shot) for task in tasks) if steps is None else steps
    recipe = make_recipe(
        readout, 2, None, total, lr, batch_size, seed, head=head, name="multi-task", optimizer=optimizer
    )
    chosen = pick(device)
    refuse_full_folder(out, overwrite, base)
    with whole_folder(out.absolute(), replace=True) as part:
        plan = DataPlan(k_shot, data_seed, max_train, max_validation, max_test, evaluate_test)
        learned = materials(tasks, plan, readout)
        tried = points(recipe, grid, optimizer)
        found = search(tried, lambda point, tell: _attempt(base, learned, point, chosen, tell), progress)
        return _written(part, out, learned, found, optimizer, command, started)


@dataclass
class Class:
    """The tasks' trainees, drawn from at random: a batch of one of them a step."""

    pupils: list[Pupil]
    draw: np.random.Generator

    def backward(self, step: int) -> float:
        """The loss of the next batch of a task drawn at random."""
        return self.pupils[int(self.draw.integers(len(self.pupils)))].backward(step)

    def check(self) -> float:
        """The mean of the tasks' validation metrics."""
        return float(np.mean([pupil.check() for pupil in self.pupils]))


def _attempt(base: str, learned: Sequence[Material], recipe: Recipe, device: torch.device, tell: Tell) -> Attempt:
    """All tasks trained together by one recipe; `held` are the trainees."""
    started = time.perf_counter()
    trainees = open_together(base, learned, recipe, device)
    pupils = [Pupil(t, m.lesson(t.tokenizer), recipe) for t, m in zip(trainees, learned, strict=True)]
    room = Class(pupils, np.random.default_rng([recipe.seed, 1]))
    history: list[TrainStep] = []
    for record in descend(together(trainees), recipe, room.backward, room.check):
        history.append(record)
        tell(record)
    for trainee in trainees:
        trainee.finish()
    values = [m.scores(t)[m.task.metric] for t, m in zip(trainees, learned, strict=True)]
    seconds = time.perf_counter() - started
    return Attempt(recipe, trainees, history, best_of(history).step, float(np.mean(values)), seconds)


def _written(
    part: Path, out: Path, learned: Sequence[Material], found: Searched, optimizer: str, command: str | None,
    started: float,
) -> Finetuned:  # fmt: skip
    """Every task's folder under `part`, which becomes `out`; what is to be told of them together."""
    best, last = found.best, None
    scores: dict[str, dict[str, float]] = {}
    notes: dict[str, None] = {}
    trainees: list[Trainee] = best.held
    names = [m.task.name for m in learned]
    others = {"tasks": names, "optimizer": optimizer, "mean_validation": best.value}
    note = f"One body was trained on {len(names)} tasks: {', '.join(names)}; a classification head is the task's own."
    for trainee, material in zip(trainees, learned, strict=True):
        last = report_of(
            trainee, material, best, started, command=command, grid=found.points, others=others, notes=(note,)
        )
        name = material.task.name
        write_folder(part / name, trainee, last, best.history, overwrite=False)
        scores |= {f"{name} {split}": values for split, values in last.scores.items()}
        notes |= dict.fromkeys(last.notes)
    assert last is not None
    return Finetuned(
        out, tuple(best.history), best.best_step, scores, tuple(notes), time.perf_counter() - started,
        last.touched, last.trained, found.points, {m.task.name: out / m.task.name for m in learned},
    )  # fmt: skip
