"""Fine-tuning from request to folder: checks, the recipe's function, and what comes out."""

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
from skillviz.models.finetune.training import OnStep, TrainStep, scores
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig, default_steps
from skillviz.models.finetune.training_data import TrainingData, training_data
from skillviz.tasks.definition import definition
from skillviz.tasks.task import Task


@dataclass(frozen=True)
class Finetuned:
    """Where the fine-tuned model is, and how it came about."""

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
    folders: Mapping[str, Path] = field(default_factory=dict)
    """Of several tasks: the folder of each model, by task, or "<stage>/<task>"."""

    def __repr__(self) -> str:
        return f"Finetuned({self.path}, best of {len(self.history):,} steps: {self.best_step:,})"


@dataclass(frozen=True)
class FineTuning:
    """One request: a base, what it learns and how, and where the result goes (`out`, in the end)."""

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
        """The examples of each task; from now on the journal belongs to them and to the rest of the request."""
        data = training_data(self.tasks, self.data, self.config.readout)
        self.journal.belongs_to(
            read_info(resolve(self.base)).fingerprint, [one.splits.fingerprint for one in data],
            [definition(task, self.config.readout) for task in self.tasks], asdict(self.config),
            [trained.region.sha256() for trained in self.regions],
        )  # fmt: skip
        return data

    def default_steps(self, task: Task) -> int:
        """The steps of a task where none are given."""
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
        """Writes a trained model with its card, and returns what the card says.

        The model's metrics and the entries it touched are measured here.
        """
        splits = ("validation", "test") if self.data.evaluate_test else ("validation",)
        report = Report(
            base=model.identity, task=data.task.name, labels=tuple(data.task.labels), metric=data.task.metric,
            settings=attempt.settings, k_shot=self.data.k_shot, data_seed=self.data.data_seed, examples=data.counts,
            data_fingerprint=data.splits.fingerprint, scores={split: scores(model, data, split) for split in splits},
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
    """The fine-tuned model, written to `out` as an ordinary `from_pretrained` folder with a model card.

    Of several tasks there is a folder each: `out`/<task name>, or `out`/<stage>/<task name> for a sequence. `regions`
    are what may move: one for graft-retrain, one a task for continual training by grafting. Raises BadInput where
    the choices do not go together, `out` is not empty (unless `overwrite`) or the loss is no longer a number; nothing
    is left in `out` then. One that is interrupted leaves its state in the folder `journal` (hidden beside `out` where
    none is given), and the same call resumes from it, bit for bit in the same place; on another device or number of
    threads up to rounding, which a note says.
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
    except BadInput:  # it would end the same way again
        request.journal.clear()
        raise
    request.journal.clear()
    return done


def journal_of(out: Path) -> Path:
    """Where an interrupted fine-tuning into `out` leaves its state."""
    return out.absolute().with_name(f".{out.absolute().name}.training")


def _refuse_shared_folder(tasks: Sequence[Task]) -> None:
    """Raises BadInput where two tasks would be written to one folder."""
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"the task '{name}' is given twice; name each task once.")
        if Path(name).name != name:
            raise BadInput(f"the task '{name}' cannot name a folder; give it a name without '/'.")
