"""Studies of a tiny BERT that take seconds, with every kind of entry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from skillviz.runs.store import Store
from skillviz.studies.spec import StudySpec

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
