"""What a fine-tuned folder holds besides its weights: the model card and the history, written in one move."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from skillviz.errors import DiskFull
from skillviz.models.load import quiet
from skillviz.models.recipe import Recipe
from skillviz.models.trainee import Trainee

PACKAGES = ("torch", "transformers", "tokenizers", "datasets")
READOUT_WORDS = {
    "head": "the model's own sequence-classification head",
    "prompt": "label words at the mask",
    "causal": "the likelihood of each label's answer after the prompt",
}


@dataclass(frozen=True)
class Report:
    """All that the card and finetune.json say besides the history."""

    base: Mapping[str, Any]
    """The base's id, revision and fingerprint."""
    task: str
    labels: tuple[str, ...]
    metric: str
    recipe: Recipe
    k_shot: int | None
    data_seed: int
    examples: dict[str, int]
    data_fingerprint: str
    scores: dict[str, dict[str, float]]
    best_step: int
    notes: tuple[str, ...]
    command: str | None
    seconds: float


def versions() -> dict[str, str]:
    """Version of Python and of the libraries that shape the result."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def write_folder(out: Path, trainee: Trainee, report: Report, history: Sequence[Any], overwrite: bool) -> None:
    """Write model, tokenizer, README.md and finetune.json beside `out`, then rename: all of it or nothing.

    Raises DiskFull where there is no space; nothing of the new folder is then left.
    """
    out = out.absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.parent / f".{out.name}.{os.getpid()}.part"
    try:
        _fill(part, trainee, report, history)
        _swap(part, out, overwrite)
    except Exception as error:
        if _is_full(error):
            raise DiskFull(
                f"no space is left in {out.parent} for the fine-tuned model; free some and repeat."
            ) from error
        raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def card(report: Report) -> str:
    """The model card, Markdown with the hub's YAML header."""
    recipe = report.recipe
    header = {
        "library_name": "transformers",
        "base_model": report.base["id"],
        "tags": ["skillviz", "text-classification"],
    }
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in header.items()), "---", ""]
    lines += [f"# {report.task}, fine-tuned from {report.base['id']}", ""]
    lines += [
        f"Fine-tuned on `{report.task}` ({', '.join(report.labels)}) by plain SGD, read by "
        f"{READOUT_WORDS[recipe.readout]}: one member of a (pre-trained, fine-tuned) pair for skill localization.",
        "",
        *_table(_facts(report)),
        "",
        *_table([("split", "examples", *_metric_names(report)), *_score_rows(report)]),
        "",
        *(f"- {note}" for note in report.notes),
    ]
    if report.command:
        lines += ["", "Made by", "", "```", report.command, "```"]
    lines += ["", f"`finetune.json` has every step. Versions: {_joined(versions())}.", ""]
    return "\n".join(lines)


def _facts(report: Report) -> list[tuple[str, ...]]:
    recipe = report.recipe
    shots = "all" if report.k_shot is None else f"{report.k_shot} a class, drawn with seed {report.data_seed}"
    return [
        ("what", "value"),
        ("base", f"`{report.base['id']}`, revision `{report.base['revision'] or 'a local folder'}`"),
        ("base fingerprint (sha256)", f"`{report.base['fingerprint']}`"),
        ("data fingerprint (sha256)", f"`{report.data_fingerprint}`"),
        ("training examples", f"{report.examples['train']:,} ({shots})"),
        ("optimizer", f"plain SGD, constant rate {recipe.lr:g}, gradient norm clipped at {recipe.clip:g}"),
        ("weight decay", f"{recipe.weight_decay:g}, not on biases and norm weights"),
        ("steps x batch", f"{recipe.steps:,} x {recipe.batch_size}"),
        ("seed", str(recipe.seed)),
        ("kept", f"step {report.best_step:,}: best validation {report.metric}, of equal ones the last "
                 f"(checked every {recipe.check_every} steps on at most {recipe.check_examples} examples)"),
    ]  # fmt: skip


def _metric_names(report: Report) -> list[str]:
    return [name for name in next(iter(report.scores.values())) if name not in ("ece_equal_mass", "confidence")]


def _score_rows(report: Report) -> list[tuple[str, ...]]:
    names = _metric_names(report)
    return [
        (split, f"{report.examples[split]:,}", *(f"{values[name]:.4f}" for name in names))
        for split, values in report.scores.items()
    ]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table; the first row is its head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return [lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]]


def _joined(values: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _fill(part: Path, trainee: Trainee, report: Report, history: Sequence[Any]) -> None:
    shutil.rmtree(part, ignore_errors=True)
    with quiet():
        trainee.model.save_pretrained(part)
    trainee.tokenizer.save_pretrained(part)
    (part / "README.md").write_text(card(report), encoding="utf-8")
    record = {
        "schema_version": 1,
        **asdict(report),
        "versions": versions(),
        "history": [asdict(s) for s in history],
    }
    (part / "finetune.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _swap(part: Path, out: Path, overwrite: bool) -> None:
    """Put the finished folder in place; an old one is taken away only then."""
    old = out.parent / f".{out.name}.{os.getpid()}.old"
    if overwrite and out.is_dir():
        out.rename(old)
    part.rename(out)
    shutil.rmtree(old, ignore_errors=True)


def _is_full(error: BaseException) -> bool:
    """True for a full disk, whichever library reports it."""
    number = getattr(error, "errno", None)
    return number in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
