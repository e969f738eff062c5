"""Short fine-tunings of a tiny BERT with every recipe, for tests of interruption and resuming."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from skillviz.api import Region, Task, load_pair
from skillviz.atomic import sha256
from skillviz.models.finetune.region_lock import MovedOutside, RegionLock, TrainedRegion
from skillviz.models.finetune.run import Finetuned, finetune
from skillviz.models.finetune.trainable_model import open_trainable
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig
from skillviz.tasks import registry
from tests.core.by_hand import by_hand, refused, refuses
from tests.models.folders import differing, flip, weights
from tests.tasks.make import write_rows
from tests.tiers import first
from tests.tiny import tiny_model, tiny_rows, tiny_task, tiny_tokenizer

# Re-exported, so that a test of fine-tuning imports all from one place.
__all__ = [
    "DataSettings", "MovedOutside", "Region", "RegionLock", "Task", "TrainedRegion", "TrainingConfig", "by_hand",
    "differing", "first", "flip", "load_pair", "refused", "refuses", "tiny_model", "tiny_tokenizer", "weights",
]  # fmt: skip

STEPS = 12
CASES: dict[str, dict[str, Any]] = {
    "sgd": {},
    "adamw": {"recipe": "adamw"},
    "adamw-l1": {"recipe": "adamw-l1"},
    "bitfit": {"recipe": "bitfit"},
    "lora": {"recipe": "lora"},
    "adapters": {"recipe": "adapter-houlsby", "width": 2},
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
    fields = {"steps": STEPS, "lr": None if "grid" in case else 0.01, "batch_size": 4, **case}
    number, count = fields.pop("tasks", 1), fields.pop("regions", 0)
    regions = [TrainedRegion(region_of(base, tasks[0], seed)) for seed in range(count)]
    return finetune(
        str(base), tasks[:number], TrainingConfig(**fields), out=out, regions=regions, device=device, **more
    )


def region_of(base: Path, task: Task, seed: int = 0, share: float = 0.2, readout: str = "head") -> Region:
    """Return a random region of the base, by the names of the readout's model."""
    shapes = open_trainable(
        str(base), task, TrainingConfig(readout=readout).settings(), torch.device("cpu")
    ).table.shapes
    order = np.random.default_rng(seed).permutation(Region.full(shapes).size)
    return Region.from_flat(order[: int(share * len(order))], shapes)


def told(folder: Path) -> dict[str, Any]:
    """Return the record of a fine-tuning."""
    return json.loads((folder / "finetune.json").read_text())


def variant(folder: Path, name: str, labels: int = 2, seed: int = 0) -> Task:
    """Return the tiny task under another name, with other rows."""
    path = tiny_task(folder / name, rows=48, labels=labels)
    for number, (split, rows) in enumerate({"train": 48, "validation": 24, "test": 24}.items()):
        write_rows(path.parent / f"{split}.jsonl", tiny_rows(rows, labels, seed=10 * seed + number))
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "name": name}))
    return registry.task(path)


def hashes(folder: Path) -> dict[str, str]:
    """Return the sha256 of every weight file below a folder."""
    return {str(path.relative_to(folder)): sha256(path) for path in folder.rglob("*.safetensors")}
