"""Fine-tunes whose skill lies where we put it: a region is trained alone, and other movement is added around it.

The place of the skill is then known, and skillviz.core.known_truth measures how much of it a localizer finds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from skillviz.core.attention_heads import head_numbers
from skillviz.core.parameters import ParameterTable
from skillviz.core.region import Region
from skillviz.core.region_expression import region_of
from skillviz.errors import BadInput
from skillviz.models.applied import write_model
from skillviz.models.finetune.recipes import RETRAIN
from skillviz.models.finetune.region_lock import TrainedRegion
from skillviz.models.finetune.run import finetune
from skillviz.models.finetune.trainable_model import open_trainable
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig
from skillviz.models.pair import ModelPair, load_pair
from skillviz.tasks.task import Task

STREAM = 44
"""The stream of draws for places, together with the seed."""
HEADS = 2
"""Attention heads of one layer that the place of heads has."""


def _drawn(entries: np.ndarray, count: int, seed: int) -> np.ndarray:
    """So many of these entries, ascending, by a stream of draws of this module alone: by the plain seed, the localizer
    `random` would draw much of the same."""
    return np.sort(np.random.default_rng((seed, STREAM)).permutation(entries)[:count])


def _scattered(share: float) -> Callable[[ParameterTable, int], Region]:
    return lambda table, seed: Region.from_flat(_drawn(np.arange(table.d), round(share * table.d), seed), table.shapes)


def _values(table: ParameterTable, seed: int) -> Region:
    return region_of({"layers": [seed % table.layers], "kinds": ["value"], "biases": False}, table)


def _heads(table: ParameterTable, seed: int) -> Region:
    """All that belongs to two heads of a layer: rows of query, key and value, columns of the output."""
    heads = table.heads or 1
    chosen, layer = [(seed + number) % heads for number in range(HEADS)], seed % table.layers
    inside = {}
    for parameter in table.parameters:
        if parameter.layer == layer:
            flat = np.arange(parameter.size)
            inside[parameter.name] = flat[np.isin(head_numbers(table, parameter, flat), chosen)]
    return Region(inside, table.shapes)


def _biases(table: ParameterTable, seed: int) -> Region:
    return region_of({"union": [{"biases": True}, {"kinds": ["LayerNorm"]}]}, table)


PLACES: Mapping[str, Callable[[ParameterTable, int], Region]] = MappingProxyType({
    "scattered 0.5%": _scattered(0.005),
    "scattered 3%": _scattered(0.03),
    "one layer's values": _values,
    "two heads": _heads,
    "biases and LayerNorm": _biases,
})  # fmt: skip
"""Where a skill is put, by name. The seed draws entries, or chooses layer and heads; biases are always all of them."""


def table_of(base: str | Path, task: Task, head: str = "own") -> ParameterTable:
    """The graftable parameters of a base with a classification head for the task (as in TrainingConfig)."""
    return open_trainable(str(base), task, TrainingConfig(head=head).settings(), torch.device("cpu")).table


def place(name: str, table: ParameterTable, seed: int = 0) -> Region:
    """The region of a place among a model's graftable parameters; raises BadInput for an unknown name, and where the
    model has no such entries."""
    if name not in PLACES:
        raise BadInput(f"'{name}' is not a place; known: {', '.join(PLACES)}.")
    region = PLACES[name](table, seed)
    if not region.size:
        raise BadInput(f"this model has no entries of the place '{name}'; choose another of {', '.join(PLACES)}.")
    return region


def elsewhere(region: Region, seed: int = 0, size: int | None = None) -> Region:
    """So many entries drawn from all others, as many as the region has by default; raises BadInput where there are
    fewer others."""
    size = region.size if size is None else size
    rest = np.setdiff1d(np.arange(region.d), region.flat(), assume_unique=True)
    if size > len(rest):
        raise BadInput(f"{size:,} entries do not fit beside the region; {len(rest):,} others are left. Ask for fewer.")
    return Region.from_flat(_drawn(rest, size, seed), region.shapes)


def plant(
    base: str | Path, task: Task, region: Region, out: Path, *, maker: str = "sgd", data: DataSettings | None = None,
    **settings: Any,
) -> ModelPair:  # fmt: skip
    """The base with the task learned in a region alone, written to `out` and opened as a pair.

    `maker` is the optimizer, sgd or adamw; `settings` are other fields of a TrainingConfig. Raises MovedOutside where
    an entry outside the region changed a bit, and BadInput for settings that do not go together.
    """
    config = TrainingConfig(recipe=RETRAIN, optimizer=maker, **settings)
    finetune(str(base), [task], config, data, out=out, regions=[TrainedRegion(region)], device="cpu")
    return load_pair(base, out, task=task, device="cpu")


def with_random_movement(pair: ModelPair, region: Region, factor: float = 1.0, seed: int = 0) -> ModelPair:
    """The pair with as many entries moved `elsewhere` as the region has: by the region's own distances times
    `factor`, in random order and with random signs. It shares the model with the pair."""
    if not 0 < factor < float("inf"):
        raise BadInput(f"the factor is {factor}; give a number above 0, such as 3.")
    inside, outside = (torch.from_numpy(one.flat()) for one in (region, elsewhere(region, seed)))
    draw = np.random.default_rng((seed, region.size))
    distances = (pair.finetuned[inside] - pair.base[inside]).abs()[torch.from_numpy(draw.permutation(region.size))]
    signs = torch.from_numpy(draw.choice([-1.0, 1.0], region.size).astype(np.float32))
    moved = pair.finetuned.clone()
    moved[outside] += factor * signs * distances
    return replace(pair, finetuned=moved)


def with_skill_of(pair: ModelPair, other: ModelPair) -> ModelPair:
    """The pair with the movement of another one of the same base too. It shares the model with the pair.

    Raises BadInput where the bases differ, or an entry moved in both: skills are planted in disjoint regions.
    """
    if not torch.equal(pair.base, other.base):
        raise BadInput("the two pairs have different bases; plant both skills in the same one.")
    there = other.finetuned != other.base
    if shared := int((there & (pair.finetuned != pair.base)).sum()):
        raise BadInput(f"both skills moved {shared:,} of the same entries; plant them in disjoint regions.")
    return replace(pair, finetuned=torch.where(there, other.finetuned, pair.finetuned))


def without(pair: ModelPair, region: Region) -> ModelPair:
    """The pair whose fine-tuned model has a region at the base, so that no search can use it. It shares the model."""
    kept, inside = pair.finetuned.clone(), torch.from_numpy(region.flat())
    kept[inside] = pair.base[inside]
    return replace(pair, finetuned=kept)


def save(pair: ModelPair, out: Path) -> None:
    """Write the fine-tuned model of a pair as an ordinary folder, which `localize` and the pages open."""
    with pair.at("finetuned"):
        write_model(out, pair.model, pair.tokenizer)
