"""Studies of tiny models that take seconds: with every kind of entry, and at a tiny scale; observations by hand."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skillviz.analysis.answers import Answers
from skillviz.analysis.observations import Observation
from skillviz.core.intervals import metric_interval
from skillviz.core.metrics import score
from skillviz.runs.record import TaskNote
from skillviz.runs.store import Store
from skillviz.studies.engine import run_study
from skillviz.studies.paper.scales import Scale
from skillviz.studies.plan import study_plan
from skillviz.studies.results import Results
from skillviz.studies.spec import StudySpec
from skillviz.studies.status import status
from skillviz.studies.store import list_studies

# Re-exported, so that a test imports all parts of a study from one place.
__all__ = ["Results", "Store", "StudySpec", "list_studies", "run_study", "status", "study_plan"]

REGION = {"localizer": "movement", "size": "5%"}


@contextmanager
def models_in(folder: Path) -> Iterator[Store]:
    """Keep fine-tuned models in this folder meanwhile; yield a store in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKILLVIZ_FINETUNED", str(folder / "finetuned-models"))
        yield Store(folder / "runs")


def tiny_world(folder: Path) -> None:
    """Write a tiny base and the tasks one and two, with the same labels and different examples."""
    from tests.tiny import tiny_pair, tiny_task  # needs torch

    tiny_pair(folder, steps=1)
    for rows, name in ((20, "one"), (24, "two")):
        path = tiny_task(folder / name, rows=rows)
        path.write_text(path.read_text().replace("name: tiny", f"name: {name}"))


def tasks(folder: Path) -> tuple[str, str]:
    """Return the files of the two tasks."""
    return str(folder / "one" / "task.yaml"), str(folder / "two" / "task.yaml")


def study_of(folder: Path, *runs: dict[str, Any], name: str = "tiny", **defaults: Any) -> StudySpec:
    """Return a study of these entries on the base of `folder`, with few steps."""
    common = {"base": str(folder / "base"), "readout": "head", "device": "cpu", "finetune": {"steps": 6, "lr": 0.05}}
    return StudySpec(name=name, defaults={**common, **defaults}, runs=runs)


def every_kind(folder: Path) -> StudySpec:
    """Return one study with entries of every kind."""
    one, two = tasks(folder)
    by_hand = {"expression": {"union": [{"run": REGION}, {"layers": [0], "kinds": ["value"]}]}}
    return study_of(
        folder,
        {"task": [one, two], "recipe": "sgd", "localizer": ["movement", "random"], "size": "5%", "seed": [0, 1]},
        {"task": one, "recipe": "graft-retrain", "region": REGION, "localizer": "none", "also": [two]},
        {"tasks": [one, two], "recipe": "continual", "mode": "grafting", "region": REGION},
        {"tasks": [one, two], "recipe": "continual", "mode": "naive"},
        {"tasks": [one, two], "recipe": "multi-task", "localizer": "movement", "size": "5%"},
        {"task": one, "recipe": ["bitfit", "lora"], "localizer": "none", "label": "small"},
        {"task": one, "recipe": "sgd", "localizer": "expression", "options": by_hand},
        {
            "task": one,
            "recipe": "sgd",
            "localizer": "random-matched",
            "size": "5%",
            "options": {"reference": {"run": REGION}},
        },
    )


def few(folder: Path, **changes: Any) -> StudySpec:
    """Return a study with a model of one task, two runs on it, and the re-trained region of the first, scored."""
    one, _ = tasks(folder)
    return study_of(
        folder,
        {"task": one, "recipe": "sgd", "localizer": ["movement", "random"], "size": "5%", **changes},
        {"task": one, "recipe": "graft-retrain", "region": REGION, "localizer": "none"},
    )


LABELS = ("negative", "positive")
D = 1000.0


def tiny_scale(world: Path) -> Scale:
    """Return a scale with two related tasks on a tiny prompt model; few fine-tuning steps, two mask seeds."""
    task, other = str(world / "task.yaml"), str(world / "other.yaml")
    few: dict[str, Any] = {"steps": 2, "batch_size": 16}
    return Scale(
        "tiny", "Tiny models", str(world / "base"), "prompt", str(world),
        tasks=(task,), sizes=(0.05, 0.01, 0.2), training={"steps": 20, "batch_size": 16, "lr": 0.05},
        roles={"all": (task, other)}, shifts={task: (other,)}, device="cpu", mask_seeds=(0, 1),
        options={
            **{name: few for name in ("stagewise", "learned", "learned-ranked", "lottery")},
            "fisher": {"options": {"examples": 4}},
        },
        ladder=(0.01, 0.05, 0.2), curve=(0.01, 0.05, 0.2), bias_sizes=(0.01,),
        adamw={"steps": 10, "batch_size": 16, "lr": 1e-3},
    )  # fmt: skip


def write_world(folder: Path) -> Path:
    """Write a tiny masked model as `base`, and two task files with the same labels and other data."""
    from tests.tiny import tiny_pair, tiny_rows, tiny_task

    tiny_pair(folder, readout="prompt")
    text = tiny_task(folder, rows=32).read_text().replace("test: test.jsonl", "test: other-test.jsonl")
    (folder / "other.yaml").write_text(text.replace("name: tiny", "name: other"))
    (folder / "other-test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in tiny_rows(20, seed=9)))
    return folder


def seen(
    method: str = "graft",
    *,
    right: str = "",
    sure: float = 2.0,
    values: dict[str, float] | None = None,
    ends: dict[str, tuple[float, float]] | None = None,
    size: float = np.nan,
    requested_size: str = "",
    seed: int = 0,
    model: str = "m0",
    split: str = "test",
    localizer: str = "",
    metric: str = "accuracy",
    **fields: Any,
) -> Observation:
    """Return one observation.

    `right` has `1` or `0` for each example, right or wrong, with logits of ± `sure`. Without it there are only
    `values` and no answers.
    """
    answers, found, known, debiased = None, dict(values or {}), dict(ends or {}), {}
    if right:
        labels = np.arange(len(right)) % 2
        chosen = np.where([letter == "1" for letter in right], labels, 1 - labels)
        logits = sure * (2.0 * np.eye(2)[chosen] - 1.0)
        answers = Answers(np.arange(len(right)), labels, logits)
        found = {**score(logits, labels), **found}
        calibration = metric_interval(logits, labels, "ece")
        known, debiased = {"ece": (calibration.low, calibration.high), **known}, {"ece": calibration.debiased}
    common: dict[str, Any] = {
        "base": "b", "recipe": "given", "setting": "all", "id_task": "sst2", "task": "sst2", "readout": "head",
        "touched": 0.0 if np.isnan(size) else size, **fields,
    }  # fmt: skip
    return Observation(
        method=method, localizer=localizer, size=size, share=size / D, requested_size=requested_size, seed=seed,
        model=model, split=split, n=len(right) or 10, note=TaskNote(name="sst2", labels=LABELS, metric=metric),
        values=found, ends=known, answers=answers, **{"debiased": debiased, **common},
    )  # fmt: skip
