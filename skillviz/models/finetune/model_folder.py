"""The files beside the weights in a fine-tuned model's folder: the model card and the history."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from skillviz.core.formats import markdown_table
from skillviz.core.metrics import COMPARED, METRICS, OF_TEXT, metric_row
from skillviz.layout import KEY, LAYOUT
from skillviz.models.applied import write_files
from skillviz.models.finetune.recipes import SGD, recipe_row
from skillviz.models.finetune.trainable_model import TrainableModel
from skillviz.models.finetune.training_config import TrainingSettings
from skillviz.models.tokenizer import MAX_LENGTH
from skillviz.tasks.task import CLASSIFICATION, GENERATION, PIPELINES

PACKAGES = ("torch", "transformers", "tokenizers", "datasets")
READOUT_WORDS = {
    "head": "the model's own sequence-classification head",
    "prompt": "label words at the mask",
    "causal": "the likelihood of each label's answer after the prompt",
}

REFERENCE_WORDS = "to generate the reference after the prompt"
LINEAR_WORDS = "a bare linear head on the first token (a token-classification model, to be read at that token)"


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
    record = {**report.record(), "versions": versions(), "history": [asdict(step) for step in history]}
    extra = {"README.md": card(report), "finetune.json": json.dumps(record, indent=1) + "\n"}
    write_files(folder, model.model, model.tokenizer, extra)


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
    read_by = REFERENCE_WORDS if has_reference else f"read by {_read_by(settings)}"
    lines += [
        f"Fine-tuned on {named} by {recipe_row(settings.name).phrase}, {read_by}: the fine-tuned half of a pair for "
        "skill localization.",
        "",
        *markdown_table(("what", "value"), _facts(report)),
        "",
        *_scores(report),
        "",
        *(f"- {note}" for note in report.notes),
    ]
    if report.command:
        lines += ["", "Made by", "", "```", report.command, "```"]
    lines += ["", f"`finetune.json` has every step. Versions: {_joined(versions())}.", ""]
    return "\n".join(lines)


def _read_by(settings: TrainingSettings) -> str:
    return LINEAR_WORDS if settings.head == "linear" else READOUT_WORDS[settings.readout]


def _optimizer(settings: TrainingSettings) -> str:
    if settings.optimizer == SGD:
        return f"plain SGD, constant rate {settings.lr:g}"
    warm = f" after a warm-up over {100 * settings.warmup:g}% of the steps" if settings.warmup else ""
    penalty = f", {settings.l1:g} times the l1 norm of the movement added to the loss" if settings.l1 else ""
    rank = f", rank {settings.rank}" if settings.rank is not None else ""
    few = f", the last {settings.matrices} query and value matrices" if settings.matrices is not None else ""
    return f"AdamW, rate {settings.lr:g} falling linearly to 0{warm}{penalty}{rank}{few}"


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


def _metric_names(report: Report) -> list[str]:
    """Return the names of the stored scores that are compared in studies, belong to references, or use predictions."""
    names = next(iter(report.scores.values()))
    return [name for name in names if name in (*COMPARED, *OF_TEXT) or METRICS[name].of_predictions]


def _scores(report: Report) -> list[str]:
    names = _metric_names(report)
    rows = [
        (split, f"{report.examples[split]:,}", *(f"{values[name]:.4f}" for name in names))
        for split, values in report.scores.items()
    ]
    return markdown_table(("split", "examples", *(metric_row(name).plug_in.title for name in names)), rows)


def _joined(values: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
