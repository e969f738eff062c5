"""Fine-tuning from request to folder: checks, the recipe's function, the model card and history, and the result."""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from skillviz.atomic import whole_folder
from skillviz.core.formats import markdown_table
from skillviz.core.metrics import COMPARED, METRICS, OF_TEXT, metric_row
from skillviz.errors import BadInput
from skillviz.layout import KEY, LAYOUT
from skillviz.models import bottleneck
from skillviz.models.adapters import placement_of
from skillviz.models.applied import refuse_full_folder, write_files
from skillviz.models.checkpoint import read_info
from skillviz.models.device import describe, pick
from skillviz.models.fetch import resolve
from skillviz.models.finetune.grid import Attempt, search
from skillviz.models.finetune.journal import Journal
from skillviz.models.finetune.recipes import SGD, recipe_row
from skillviz.models.finetune.region_lock import TrainedRegion
from skillviz.models.finetune.trainable_model import TrainableModel, open_trainable
from skillviz.models.finetune.training import (
    OnStep,
    Trainer,
    TrainingData,
    TrainStep,
    best_of,
    metric_values,
    run_steps,
    training_data,
)
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig, TrainingSettings, default_steps
from skillviz.models.tokenizer import MAX_LENGTH
from skillviz.tasks.definition import definition
from skillviz.tasks.task import CLASSIFICATION, GENERATION, PIPELINES, Task

PACKAGES = ("torch", "transformers", "tokenizers", "datasets")
READOUT_WORDS = {
    "head": "the model's own sequence-classification head",
    "prompt": "label words at the mask",
    "causal": "the likelihood of each label's answer after the prompt",
}

REFERENCE_WORDS = "to generate the reference after the prompt"
LINEAR_WORDS = "a bare linear head on the first token (a token-classification model, to be read at that token)"
ADAPTERS_WORDS = (
    "This folder holds adapters and head alone: skillviz opens it beside its base and scores it. No region of it can "
    "be grafted."
)


@dataclass(frozen=True)
class Report:
    """The content of the card and of finetune.json, except the history."""

    base: Mapping[str, Any]
    """The base's id, revision and fingerprint."""
    task: str
    labels: tuple[str, ...]
    metric: str
    settings: TrainingSettings
    k_shot: int | None
    data_seed: int
    examples: dict[str, int]
    data_fingerprint: str
    scores: dict[str, dict[str, float]]
    best_step: int
    notes: tuple[str, ...]
    command: str | None
    seconds: float
    touched: int
    """The number of graftable entries that differ from the base's."""
    trained: int
    """The number of entries that could move, without the classification head."""
    trained_head: int
    d: int
    max_length: int
    """The longest input in tokens; longer texts were truncated."""
    kind: str = CLASSIFICATION
    """The task's kind, for the card only; finetune.json has the task's name."""
    grid: tuple[dict[str, Any], ...] = ()
    """Every point of the grid; empty if there was only one."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """Facts of this recipe only: a region's size, the tasks that were learned together, a stage."""

    def record(self) -> dict[str, Any]:
        """Return the content of finetune.json: `recipe` is the name, `settings` are its numbers.

        A score that the examples do not determine is null.
        """
        fields = asdict(self)
        fields["scores"] = {
            split: {metric: value if math.isfinite(value) else None for metric, value in values.items()}
            for split, values in self.scores.items()
        }
        others, settings = fields.pop("others"), fields.pop("settings")
        del fields["kind"]
        return {KEY: LAYOUT, "recipe": settings.pop("name"), "settings": settings, **fields, **others}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that affect the result."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def write_folder(folder: Path, model: TrainableModel, report: Report, history: Sequence[Any]) -> None:
    """Write model, tokenizer, README.md and finetune.json."""
    setattr(model.model.config, MAX_LENGTH, report.max_length)  # the default length for tasks that state none
    settings = report.settings
    if placement := placement_of(settings.name):
        width = settings.width or 1
        bottleneck.save(folder, model.model, model.head, report.base, settings.readout, placement, width)
    record = {**report.record(), "versions": versions(), "history": [asdict(step) for step in history]}
    extra = {"README.md": card(report), "finetune.json": json.dumps(record, indent=1) + "\n"}
    write_files(folder, None if placement else model.model, model.tokenizer, extra)


def card(report: Report) -> str:
    """Return the model card, Markdown with the hub's YAML header."""
    settings = report.settings
    header = {
        "library_name": "transformers",
        "base_model": report.base["id"],
        "tags": ["skillviz", PIPELINES[report.kind]],
    }
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in header.items()), "---", ""]
    lines += [f"# {report.task}, fine-tuned from {report.base['id']}", ""]
    has_reference = report.kind == GENERATION
    named = f"`{report.task}`" if has_reference else f"`{report.task}` ({', '.join(report.labels)})"
    head = LINEAR_WORDS if settings.head == "linear" else READOUT_WORDS[settings.readout]
    read_by = REFERENCE_WORDS if has_reference else f"read by {head}"
    lines += [
        f"Fine-tuned on {named} by {recipe_row(settings.name).phrase}, {read_by}: the fine-tuned half of a pair for "
        "skill localization.",
        "",
        *markdown_table(("what", "value"), _facts(report)),
        "",
        *_scores(report),
        "",
        *([ADAPTERS_WORDS, ""] if placement_of(settings.name) else []),
        *(f"- {note}" for note in report.notes),
    ]
    used = ", ".join(f"{name} {value}" for name, value in versions().items())
    if report.command:
        lines += ["", "Made by", "", "```", report.command, "```"]
    lines += ["", f"`finetune.json` has every step. Versions: {used}.", ""]
    return "\n".join(lines)


def _optimizer(settings: TrainingSettings) -> str:
    if settings.optimizer == SGD:
        return f"plain SGD, constant rate {settings.lr:g}"
    warm = f" after a warm-up over {100 * settings.warmup:g}% of the steps" if settings.warmup else ""
    penalty = f", {settings.l1:g} times the l1 norm of the movement added to the loss" if settings.l1 else ""
    known = {"rank": settings.rank, "width": settings.width}
    sizes = "".join(f", {name} {value}" for name, value in known.items() if value is not None)
    few = f", the last {settings.matrices} query and value matrices" if settings.matrices is not None else ""
    return f"AdamW, rate {settings.lr:g} falling linearly to 0{warm}{penalty}{sizes}{few}"


def _facts(report: Report) -> list[tuple[str, ...]]:
    settings = report.settings
    each = "a class" if report.kind == CLASSIFICATION else "in all"
    own = f"validation {metric_row(report.metric).title}"
    checked = "mean of the tasks' validation metrics" if "mean_validation" in report.others else own
    shots = "all" if report.k_shot is None else f"{report.k_shot} {each}, drawn with seed {report.data_seed}"
    return [
        ("base", f"`{report.base['id']}`, revision `{report.base['revision'] or 'a local folder'}`"),
        ("base fingerprint (sha256)", f"`{report.base['fingerprint']}`"),
        ("data fingerprint (sha256)", f"`{report.data_fingerprint}`"),
        ("training examples", f"{report.examples['train']:,} ({shots})"),
        ("recipe", f"{settings.name}: {recipe_row(settings.name).sentence}"),
        ("optimizer", f"{_optimizer(settings)}, gradient norm clipped at {settings.clip:g}"),
        ("weight decay", f"{settings.weight_decay:g}, not on biases and norm weights"),
        ("longest input", f"{report.max_length:,} tokens"),
        ("steps x batch", f"{settings.steps:,} x {settings.batch_size}"),
        ("seed", str(settings.seed)),
        ("entries trained", f"{report.trained:,}, and {report.trained_head:,} of the classification head"),
        ("entries touched", f"{report.touched:,} of {report.d:,} graftable ones differ from the base's"),
        ("kept", f"step {report.best_step:,}: best {checked}, of equal ones the "
                 f"last (checked every {settings.check_every} steps on at most {settings.check_examples} examples)"),
    ]  # fmt: skip


def _scores(report: Report) -> list[str]:
    # the stored scores that are compared in studies, belong to references, or use predictions
    known = (*COMPARED, *OF_TEXT)
    names = [n for n in next(iter(report.scores.values())) if n in known or METRICS[n].of_predictions]
    rows = [
        (split, f"{report.examples[split]:,}", *(f"{values[name]:.4f}" for name in names))
        for split, values in report.scores.items()
    ]
    return markdown_table(("split", "examples", *(metric_row(name).plug_in.title for name in names)), rows)


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
            data_fingerprint=data.splits.fingerprint, best_step=attempt.best_step, command=self.command,
            scores={split: metric_values(model, data, split) for split in splits},
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


def train(request: FineTuning, folder: Path) -> Finetuned:
    """Fine-tune the base on one task into `folder`; with a region, only its entries and the head move."""
    (task,) = request.tasks
    points = request.config.points(request.default_steps(task))
    (data,) = request.training_data()
    region = request.regions[0] if request.regions else None

    def attempt(settings: TrainingSettings, on_step: OnStep) -> Attempt:
        started = time.perf_counter()
        model = open_trainable(request.base, task, settings, request.device, region.region if region else None)
        history = run_steps(Trainer(model, data, settings).steps(request.journal.begin()), on_step)
        model.finish()
        value = metric_values(model, data)[task.metric]
        return Attempt(settings, [model], history, best_of(history).step, value, time.perf_counter() - started)

    result = search(points, attempt, request.on_step, metric_row(task.metric).merit)
    others = {"region": region.record()} if region else {}
    report = request.write(folder, result.best.models[0], data, result.best, grid=result.points, others=others)
    return Finetuned(
        request.out, tuple(result.best.history), result.best.best_step, report.scores, report.notes, report.seconds,
        report.touched, report.trained, result.points,
    )  # fmt: skip
