"""Fine-tuning from request to folder: checks, the recipe's function, and the result."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from skillviz.atomic import whole_folder
from skillviz.errors import BadInput
from skillviz.models.applied import refuse_full_folder
from skillviz.models.checkpoint import read_info
from skillviz.models.device import describe, pick
from skillviz.models.fetch import resolve
from skillviz.models.finetune.grid import Attempt
from skillviz.models.finetune.journal import Journal
from skillviz.models.finetune.model_folder import Report, write_folder
from skillviz.models.finetune.region_lock import TrainedRegion
from skillviz.models.finetune.trainable_model import TrainableModel
from skillviz.models.finetune.training import OnStep, TrainStep, metric_values
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig, default_steps
from skillviz.models.finetune.training_data import TrainingData, training_data
from skillviz.tasks.definition import definition
from skillviz.tasks.task import Task


@dataclass(frozen=True)
class Finetuned:
    """A fine-tuned model's folder, with its history and scores."""

    path: Path
    history: tuple[TrainStep, ...]
    best_step: int
    scores: dict[str, dict[str, float]]
    """By split (validation, and test if requested), then by metric; for several tasks by "<task> <split>"."""
    notes: tuple[str, ...]
    seconds: float
    touched: int = 0
    """Graftable entries that differ from the base's; for several folders, in the last one."""
    trained: int = 0
    """Entries that could move, without the classification head."""
    grid: tuple[dict[str, Any], ...] = ()
    folders: Mapping[str, Path] = field(default_factory=dict)
    """For several tasks: the folder of each model, by task, or "<stage>/<task>"."""

    def __repr__(self) -> str:
        return f"Finetuned({self.path}, best of {len(self.history):,} steps: {self.best_step:,})"


@dataclass(frozen=True)
class FineTuning:
    """One request: a base, its tasks and settings, and the final folder of the result (`out`)."""

    base: str
    tasks: Sequence[Task]
    config: TrainingConfig
    data: DataSettings
    out: Path
    regions: Sequence[TrainedRegion]
    device: torch.device
    command: str | None
    on_step: OnStep
    started: float
    journal: Journal

    def training_data(self) -> list[TrainingData]:
        """Return the examples of each task, and set the journal's stamp from them and the rest of the request."""
        data = training_data(self.tasks, self.data, self.config.readout)
        self.journal.belongs_to(
            read_info(resolve(self.base)).fingerprint, [one.splits.fingerprint for one in data],
            [definition(task, self.config.readout) for task in self.tasks], asdict(self.config),
            [trained.region.sha256() for trained in self.regions],
        )  # fmt: skip
        return data

    def default_steps(self, task: Task) -> int:
        """Return the default number of steps for a task."""
        return default_steps(len(task.labels) if task.has_classes else 1, self.data.k_shot)

    def write(
        self,
        folder: Path,
        model: TrainableModel,
        data: TrainingData,
        attempt: Attempt,
        *,
        grid: Sequence[dict[str, Any]] = (),
        others: Mapping[str, Any] | None = None,
        notes: Sequence[str] = (),
        trained: int | None = None,
    ) -> Report:
        """Write a trained model with its card and return the report.

        The model's metrics and the number of entries it touched are measured here.
        """
        splits = ("validation", "test") if self.data.evaluate_test else ("validation",)
        report = Report(
            base=model.identity, task=data.task.name, labels=tuple(data.task.labels), metric=data.task.metric,
            settings=attempt.settings, k_shot=self.data.k_shot, data_seed=self.data.data_seed, examples=data.counts,
            data_fingerprint=data.splits.fingerprint, scores={split: metric_values(model, data, split) for split in splits},
            best_step=attempt.best_step, command=self.command,
            notes=(*model.notes, *notes, *self.journal.notes, *data.splits.notes, *data.encoding_notes),
            touched=model.touched(), trained=model.trained_body if trained is None else trained,
            trained_head=model.trained_head, d=model.table.d, grid=tuple(grid), others=others or {},
            kind=data.task.kind, max_length=data.limit(model.tokenizer), seconds=time.perf_counter() - self.started,
        )  # fmt: skip
        write_folder(folder, model, report, attempt.history)
        return report


def finetune(
    base: str,
    tasks: Sequence[Task],
    config: TrainingConfig,
    data: DataSettings | None = None,
    *,
    out: Path | str,
    regions: Sequence[TrainedRegion] = (),
    device: str = "auto",
    overwrite: bool = False,
    command: str | None = None,
    on_step: OnStep | None = None,
    journal: Path | None = None,
) -> Finetuned:
    """Fine-tune a model and write it to `out`, an ordinary `from_pretrained` folder with a model card.

    For several tasks there is a folder each: `out`/<task name>, or `out`/<stage>/<task name> for a sequence. `regions`
    may move: one for graft-retrain, one per task for continual training by grafting. Raises BadInput if the choices
    contradict each other, if `out` is not empty (unless `overwrite`), or if the loss is no longer a number; `out` is
    then left unchanged.

    An interrupted training leaves its state in the folder `journal` (by default hidden beside `out`), and the same call
    resumes from it: bit for bit on the same device; on another device or number of threads up to rounding, which a note
    says.
    """
    started, out = time.perf_counter(), Path(out)
    row = config.check(len(tasks), len(regions))
    if row.several_tasks:
        _refuse_shared_folder(tasks)
    refuse_full_folder(out, overwrite, base)
    request = FineTuning(
        base, tasks, config, data or DataSettings(), out, regions, pick(device), command,
        on_step or (lambda record: None), started,
        Journal(journal or journal_of(out), computed_on=f"{describe(pick(device))}, torch {torch.__version__}"),
    )  # fmt: skip
    try:
        with whole_folder(out.absolute(), replace=True) as draft:
            done: Finetuned = row.function()(request, draft)
    except BadInput:  # it would fail in the same way again
        request.journal.clear()
        raise
    request.journal.clear()
    return done


def journal_of(out: Path) -> Path:
    """Return the folder in which an interrupted fine-tuning into `out` leaves its state."""
    return out.absolute().with_name(f".{out.absolute().name}.training")


def _refuse_shared_folder(tasks: Sequence[Task]) -> None:
    """Raise BadInput if two tasks would be written to one folder."""
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"the task '{name}' is given twice; name each task once.")
        if Path(name).name != name:
            raise BadInput(f"the task '{name}' cannot name a folder; give it a name without '/'.")
