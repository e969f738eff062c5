"""Short fine-tunings of a tiny BERT with every recipe, for tests of interruption and resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from skillviz.atomic import sha256
from skillviz.core.region import Region
from skillviz.models.finetune.region_lock import TrainedRegion
from skillviz.models.finetune.run import Finetuned, finetune
from skillviz.models.finetune.trainable_model import open_trainable
from skillviz.models.finetune.training_config import TrainingConfig
from skillviz.tasks.task import Task

STEPS = 12
CASES: dict[str, dict[str, Any]] = {
    "sgd": {},
    "adamw": {"recipe": "adamw"},
    "adamw-l1": {"recipe": "adamw-l1"},
    "bitfit": {"recipe": "bitfit"},
    "lora": {"recipe": "lora"},
    "graft-retrain": {"recipe": "graft-retrain", "regions": 1},
    "grid": {"grid": "quick"},
    "multi-task": {"recipe": "multi-task", "tasks": 2, "optimizer": "adamw"},
    "continual naive": {"recipe": "continual", "tasks": 2},
    "continual by grafting": {"recipe": "continual", "tasks": 2, "regions": 2},
}
"""Fields of a TrainingConfig; `tasks` and `regions` are the numbers that the recipe takes."""


def trained(
    base: Path, tasks: list[Task], case: dict[str, Any], out: Path, device: str = "cpu", **more: Any
) -> Finetuned:
    """Fine-tune a case."""
    fields = {"steps": STEPS, "lr": 0.01, "batch_size": 4, **case}
    number, count = fields.pop("tasks", 1), fields.pop("regions", 0)
    if fields.get("grid"):
        del fields["lr"]
    config = TrainingConfig(**fields)
    shapes = open_trainable(str(base), tasks[0], config.settings(), torch.device("cpu")).table.shapes
    d = Region.full(shapes).size
    flats = [np.random.default_rng(seed).permutation(d)[: d // 5] for seed in range(count)]
    regions = [TrainedRegion(Region.from_flat(flat, shapes)) for flat in flats]
    return finetune(str(base), tasks[:number], config, out=out, regions=regions, device=device, **more)


def hashes(folder: Path) -> dict[str, str]:
    """Return the sha256 of every weight file below a folder."""
    return {str(path.relative_to(folder)): sha256(path) for path in folder.rglob("*.safetensors")}
