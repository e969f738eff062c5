"""Fine-tune models with a skill at a known place: train one region alone, then add other movement around it.

skillviz.planted measures how much of the planted region a localizer finds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

from skillviz.core.parameters import ParameterTable, head_numbers
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


class Recovery(NamedTuple):
    """The overlap of a region with the true one; source: ours.

    `precision` is the share of its moved entries that are true, `chance` that share among all moved entries, `recall`
    its share of the true region's squared movement. `tensor` is the rank of the true tensor, the one with most of the
    true movement, when tensors are ordered by the share of their entries in the region; 1 is the densest, and ties
    share the mean of their ranks.
    """

    precision: float
    chance: float
    recall: float
    tensor: float


def recovery(region: Region, true: Region, movement: np.ndarray) -> Recovery:
    """Return the recovery of `true` by `region` in a fine-tuned model of this movement [d].

    The precision is NaN if none of the region's entries moved. Raises BadInput for regions of other parameters, or a
    true region that did not move.
    """
    if dict(region.shapes) != dict(true.shapes) or len(movement) != true.d:
        raise BadInput("the regions and the movement must be of the same parameters.")
    region = region.like(true.shapes)
    squares = movement.astype(np.float64) ** 2
    of_true, of_region, both = (squares[one.flat()] for one in (true, region, true & region))
    if not of_true.any():
        raise BadInput("the true region did not move, so there is no skill to find.")
    moved = np.count_nonzero(of_region)
    return Recovery(
        precision=np.count_nonzero(both) / moved if moved else float("nan"),
        chance=np.count_nonzero(of_true) / np.count_nonzero(squares),
        recall=float(both.sum() / of_true.sum()),
        tensor=_rank(region, true, squares),
    )


def _rank(region: Region, true: Region, squares: np.ndarray) -> float:
    """Return the rank of the true tensor by density of the region; ties share the mean of their ranks."""
    sizes = [prod(shape) for shape in region.shapes.values()]
    starts = np.cumsum([0, *sizes[:-1]])
    of_true = np.zeros_like(squares)
    of_true[true.flat()] = squares[true.flat()]
    right = int(np.argmax(np.add.reduceat(of_true, starts)))
    density = np.array([len(region.indices.get(name, ())) for name in region.shapes]) / sizes
    above, level = (density > density[right]).sum(), (density == density[right]).sum()
    return float(above + (level + 1) / 2)


STREAM = 44
"""Combined with the seed for the random draws of places."""
HEADS = 2
"""The number of attention heads, of one layer, in the place "two heads"."""


def _drawn(entries: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return `count` of these entries, drawn at random, in ascending order.

    The stream of draws is this module's own: with the plain seed, the localizer `random` would draw many of the same
    entries.
    """
    return np.sort(np.random.default_rng((seed, STREAM)).permutation(entries)[:count])


def _scattered(share: float) -> Callable[[ParameterTable, int], Region]:
    return lambda table, seed: Region.from_flat(_drawn(np.arange(table.d), round(share * table.d), seed), table.shapes)


def _values(table: ParameterTable, seed: int) -> Region:
    return region_of({"layers": [seed % table.layers], "kinds": ["value"], "biases": False}, table)


def _heads(table: ParameterTable, seed: int) -> Region:
    """Return all entries of two heads of a layer: rows of query, key and value, columns of the output."""
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
"""The places for a skill, by name. The seed draws entries, or layer and heads; biases are always used in full."""


def table_of(base: str | Path, task: Task, head: str = "own") -> ParameterTable:
    """Return the graftable parameters of a base with a classification head for the task (as in TrainingConfig)."""
    return open_trainable(str(base), task, TrainingConfig(head=head).settings(), torch.device("cpu")).table


def place(name: str, table: ParameterTable, seed: int = 0) -> Region:
    """Return the region of a place among a model's graftable parameters.

    Raises BadInput for an unknown name, and if the model has no such entries.
    """
    if name not in PLACES:
        raise BadInput(f"'{name}' is not a place; known: {', '.join(PLACES)}.")
    region = PLACES[name](table, seed)
    if not region.size:
        raise BadInput(f"this model has no entries of the place '{name}'; choose another of {', '.join(PLACES)}.")
    return region


def elsewhere(region: Region, seed: int = 0, size: int | None = None) -> Region:
    """Return a region of entries drawn from outside this region, by default as many as it has.

    Raises BadInput if there are too few entries outside.
    """
    size = region.size if size is None else size
    rest = np.setdiff1d(np.arange(region.d), region.flat(), assume_unique=True)
    if size > len(rest):
        raise BadInput(f"{size:,} entries do not fit beside the region; {len(rest):,} others are left. Ask for fewer.")
    return Region.from_flat(_drawn(rest, size, seed), region.shapes)


def plant(
    base: str | Path, task: Task, region: Region, out: Path, *, maker: str = "sgd", data: DataSettings | None = None,
    **settings: Any,
) -> ModelPair:  # fmt: skip
    """Train the task in a region of the base alone, write the model to `out` and return the pair.

    `maker` is the optimizer, sgd or adamw; `settings` are other fields of a TrainingConfig. Raises MovedOutside if an
    entry outside the region changed by a bit, and BadInput for settings that contradict each other.
    """
    config = TrainingConfig(recipe=RETRAIN, optimizer=maker, **settings)
    finetune(str(base), [task], config, data, out=out, regions=[TrainedRegion(region)], device="cpu")
    return load_pair(base, out, task=task, device="cpu")


def with_random_movement(pair: ModelPair, region: Region, factor: float = 1.0, seed: int = 0) -> ModelPair:
    """Return the pair with additional random movement outside the region, on as many entries as the region has.

    The distances are the region's own times `factor`, in random order and with random signs. The returned pair shares
    the model with the given one.
    """
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
    """Return the pair with the movement of another pair of the same base added. It shares the model with `pair`.

    Raises BadInput if the bases differ or an entry moved in both: skills are planted in disjoint regions.
    """
    if not torch.equal(pair.base, other.base):
        raise BadInput("the two pairs have different bases; plant both skills in the same one.")
    there = other.finetuned != other.base
    if shared := int((there & (pair.finetuned != pair.base)).sum()):
        raise BadInput(f"both skills moved {shared:,} of the same entries; plant them in disjoint regions.")
    return replace(pair, finetuned=torch.where(there, other.finetuned, pair.finetuned))


def without(pair: ModelPair, region: Region) -> ModelPair:
    """Return the pair with a region of its fine-tuned model reset to the base, so that no search can use it.

    The returned pair shares the model with the given one.
    """
    kept, inside = pair.finetuned.clone(), torch.from_numpy(region.flat())
    kept[inside] = pair.base[inside]
    return replace(pair, finetuned=kept)


def save(pair: ModelPair, out: Path) -> None:
    """Write the fine-tuned model of a pair as an ordinary folder that `localize` and the pages can open."""
    with pair.at("finetuned"):
        write_model(out, pair.model, pair.tokenizer)
