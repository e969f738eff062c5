"""Fine-tuning of one task by a recipe: by default the paper's plain SGD, embeddings and language-model head frozen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from skillviz.core.region import Region
from skillviz.models.applied import refuse_full_folder
from skillviz.models.device import pick
from skillviz.models.finetune.grid import Attempt, Tell, points, search
from skillviz.models.finetune.model_folder import Report, write_folder
from skillviz.models.finetune.recipes import check_use
from skillviz.models.finetune.retrain import about
from skillviz.models.finetune.trainer import Trainee, open_trainee
from skillviz.models.finetune.training import TrainStep, best_of, evaluate, training
from skillviz.models.finetune.training_config import Recipe, make_recipe
from skillviz.models.finetune.training_data import DataPlan, Material
from skillviz.tasks.task import Task

__all__ = ["Finetuned", "TrainStep", "evaluate", "finetune", "training"]


@dataclass(frozen=True)
class Finetuned:
    """Where the fine-tuned model lies, and how it came about."""

    path: Path
    history: tuple[TrainStep, ...]
    best_step: int
    scores: dict[str, dict[str, float]]
    """By split (validation, and test where asked for), then by metric; of several tasks by "<task> <split>"."""
    notes: tuple[str, ...]
    seconds: float
    touched: int = 0
    """Graftable entries that differ from the base's; of several folders, in the last."""
    trained: int = 0
    """Entries that could move, the classification head aside."""
    grid: tuple[dict[str, Any], ...] = ()
    members: Mapping[str, Path] = field(default_factory=dict)
    """Of several tasks: the folder of each model, by task, or "<stage>/<task>"."""


def finetune(
    base: str,
    task: Task,
    *,
    out: Path | str,
    recipe: str = "sgd",
    rank: int | None = None,
    region: Region | None = None,
    region_run: str | None = None,
    grid: str | None = None,
    readout: str = "head",
    steps: int | None = None,
    batch_size: int = 8,
    lr: float | None = None,
    seed: int = 0,
    k_shot: int | None = None,
    data_seed: int = 0,
    max_train: int | None = None,
    max_validation: int | None = None,
    max_test: int | None = None,
    evaluate_test: bool = False,
    device: str = "auto",
    train_embeddings: bool = False,
    train_head: bool = False,
    head: str = "own",
    overwrite: bool = False,
    command: str | None = None,
    progress: Callable[[TrainStep], None] | None = None,
) -> Finetuned:
    """The fine-tuned model, written to `out` as an ordinary `from_pretrained` folder with a model card.

    `recipe` is a name of `recipes.RECIPES`; `rank` is LoRA's, `region` what graft-retrain may move and `region_run`
    the id of the run that found it, `grid` (paper, quick or none) a search on validation data. `steps`, `lr` default
    as `recipe.make_recipe` says; `progress` is called with every step's record.
    Raises BadInput where `out` is not empty (unless `overwrite`) or the loss is no longer a number.
    """
    started, out = time.perf_counter(), Path(out)
    extra = train_embeddings or train_head
    check_use(recipe, rank=rank, regions=int(region is not None), grid=grid, lr=lr, extra_trained=extra)
    refuse_full_folder(out, overwrite, base)
    settings = make_recipe(
        readout, len(task.labels), k_shot, steps, lr, batch_size, seed, train_embeddings, train_head, head, recipe, rank
    )
    chosen = pick(device)
    plan = DataPlan(k_shot, data_seed, max_train, max_validation, max_test, evaluate_test)
    material = Material(task, plan.load(task), plan, readout)
    found = search(points(settings, grid), lambda point, tell: attempt(base, material, point, chosen, region, tell),
                   progress)  # fmt: skip
    others = {} if region is None else {"region": about(region, region_run)}
    report = report_of(
        found.best.held, material, found.best, started, command=command, grid=found.points, others=others
    )
    write_folder(out, found.best.held, report, found.best.history, overwrite)
    return Finetuned(
        out, tuple(found.best.history), found.best.best_step, report.scores, report.notes, report.seconds,
        report.touched, report.trained, found.points,
    )  # fmt: skip


def attempt(
    base: str, material: Material, recipe: Recipe, device: torch.device, region: Region | None, tell: Tell
) -> Attempt:
    """The base fine-tuned by one recipe, its best check restored, an ordinary model again."""
    started = time.perf_counter()
    trainee = open_trainee(base, material.task, recipe, device, region)
    lesson = material.lesson(trainee.tokenizer)
    history: list[TrainStep] = []
    for record in training(trainee, lesson.train, lesson.validation, recipe, lesson.metric, lesson.positive):
        history.append(record)
        tell(record)
    trainee.finish()
    value = material.scores(trainee)[lesson.metric]
    return Attempt(recipe, trainee, history, best_of(history).step, value, time.perf_counter() - started)


def report_of(
    trainee: Trainee,
    material: Material,
    found: Attempt,
    started: float,
    *,
    command: str | None = None,
    grid: Sequence[dict[str, Any]] = (),
    others: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    trained: int | None = None,
) -> Report:
    """What is to be said of a trained model; its metrics and the entries it touched are measured here."""
    task, plan = material.task, material.plan
    return Report(
        base=trainee.identity, task=task.name, labels=tuple(task.labels), metric=task.metric, recipe=found.recipe,
        k_shot=plan.k_shot, data_seed=plan.data_seed, examples=material.counts,
        data_fingerprint=material.splits.fingerprint, scores=material.all_scores(trainee), best_step=found.best_step,
        notes=(*trainee.notes, *notes, *material.splits.notes), command=command,
        touched=trainee.touched(), trained=trainee.trained_body if trained is None else trained,
        trained_head=trainee.trained_head, d=trainee.table.d, grid=tuple(grid), others=others or {},
        seconds=time.perf_counter() - started,
    )  # fmt: skip
