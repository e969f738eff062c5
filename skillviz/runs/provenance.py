"""The origin of a run's numbers: models, data, versions and commit, as stored in run.json."""

from __future__ import annotations

import platform
import subprocess
import tomllib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from skillviz.core.formats import counted
from skillviz.core.parameters import ParameterTable
from skillviz.models.checkpoint import ModelInfo
from skillviz.runs.held_out import training_record
from skillviz.runs.record import Architecture, ModelNote, TaskNote
from skillviz.tasks.definition import definition
from skillviz.tasks.leaks import digests
from skillviz.tasks.project import PROJECT
from skillviz.tasks.source import OPTIONS
from skillviz.tasks.splits import Splits
from skillviz.tasks.task import CHOICE, Task

PACKAGES = ("skillviz", "torch", "transformers", "numpy", "pandas", "safetensors")


def model_note(source: str, info: ModelInfo) -> ModelNote:
    """Return the note that identifies a model; `source` is as in the spec, since folders differ by machine."""
    settings = training_record(info.folder).get("settings")
    steps = settings.get("steps") if isinstance(settings, Mapping) else None
    return ModelNote(
        source=source,
        revision=info.revision,
        model_type=info.model_type,
        dtype=info.dtype,
        fingerprint=info.fingerprint,
        steps=steps if isinstance(steps, int) else None,
    )


def task_note(task: Task, splits: Splits, readout: str | None = None) -> TaskNote:
    """Return the facts about the task that pages need, without texts.

    Its definition is for the given readout, or for every readout if none is given.
    """
    frames = {"train": splits.train, "validation": splits.validation, "test": splits.test}
    labels = {split: frame["label"].to_numpy() for split, frame in frames.items() if len(frame)}
    has_classes = task.has_classes
    return TaskNote(
        name=task.name,
        kind=task.kind,
        labels=task.labels,
        metric=task.metric,
        positive=task.f1_class,
        fingerprint=splits.fingerprint,
        counts={split: len(y) for split, y in labels.items()},
        majority={split: float(np.bincount(y).max() / len(y)) for split, y in labels.items()} if has_classes else {},
        chance={s: float((1 / frames[s][OPTIONS].map(len)).mean()) for s in labels} if task.kind == CHOICE else {},
        definition=definition(task, readout),
        words=round(splits.words, 1),
    )


def architecture_note(table: ParameterTable) -> Architecture:
    """Return the numbers that describe the graftable parameters."""
    return Architecture(
        model_type=table.model_type,
        known=table.known,
        d=table.d,
        layers=table.layers,
        heads=table.heads,
        stacks=tuple((stack.name, stack.first, stack.last) for stack in table.stacks),
        repeats=table.repeats,
    )


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages on which the numbers depend."""
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}


def commit() -> str | None:
    """Return the git commit of skillviz, with `+changes` if its files differ from it; None outside a checkout."""
    if not (PROJECT / ".git").exists():
        return None
    head = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "skillviz")
    return None if head is None else head + ("+changes" if changed else "")


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=PROJECT, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        if name != "skillviz":
            return "absent"
    declared = PROJECT / "pyproject.toml"  # for a checkout that is not installed
    if not declared.is_file():
        return "unknown"
    return str(tomllib.loads(declared.read_text(encoding="utf-8"))["project"]["version"])


def overlap_note(splits: Splits, training: frozenset[bytes]) -> tuple[str, ...]:
    """Return a sentence if test examples have the texts of training examples, which inflates every score.

    `training` are the digests of the whole train split, since a model may have been trained on more of it than the run
    uses.
    """
    again = sum(digest in training for digest in digests(splits.test))
    if not again:
        return ()
    return (
        f"{again:,} of {counted(len(splits.test), 'test example')} {'has' if again == 1 else 'have'} the text of a "
        "training example (compared on letters and digits). Leave them out of the test set: they flatter every score.",
    )
