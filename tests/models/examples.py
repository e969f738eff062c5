"""Encoded examples of tiny_task for a pair, and loaded tiny pairs."""

from pathlib import Path

import numpy as np
from torch import Tensor

from skillviz.api import Graft, ModelPair, Region, load_pair, task
from skillviz.core.encoded import Encoded
from skillviz.models.applied import applied, opened_base, save_applied
from skillviz.models.frozen_tensors import fill, strip
from skillviz.models.lean_pair import load_lean
from skillviz.models.load import load_model
from skillviz.models.pair import STATES
from skillviz.models.preflight import preflight
from skillviz.tasks.encode import encode
from skillviz.tasks.splits import load
from tests.models.folders import (
    change_config,
    change_json,
    change_weights,
    differing,
    drop,
    drop_tokenizer,
    flip,
    weights,
)
from tests.refused import refused, refuses
from tests.tiny import AUTO, FAMILIES, MASKED, tiny_model, tiny_pair, tiny_task, tiny_tokenizer

# Re-exported, so that a test of a pair imports all from one place.
__all__ = [
    "AUTO", "FAMILIES", "Graft", "MASKED", "ModelPair", "Region", "STATES", "applied", "change_config", "change_json",
    "change_weights", "differing", "drop", "drop_tokenizer", "fill", "flip", "load_lean", "load_model", "load_pair",
    "opened_base", "preflight", "refused", "refuses", "save_applied", "strip", "task", "tiny_model", "tiny_pair",
    "tiny_task", "tiny_tokenizer", "weights",
]  # fmt: skip

FITTING = [(f, r) for f in FAMILIES for r in (("head", "prompt") if f in MASKED else ("head", "causal"))]


def examples(folder: Path, pair: ModelPair, rows: int = 16, labels: int = 2) -> Encoded:
    """Return the test rows of tiny_task, encoded for the pair's readout."""
    found = task(tiny_task(folder / "task", rows=2 * rows, labels=labels))
    return encode(found, load(found).test, pair.tokenizer, pair.readout_name)


def some_region(pair: ModelPair, share: float = 0.1, seed: int = 0, size: int | None = None) -> Region:
    """Return a random region with about this share of the pair's entries, or with this size."""
    size = max(1, int(share * pair.d)) if size is None else size
    return Region.from_flat(np.random.default_rng(seed).choice(pair.d, size, replace=False), pair.table.shapes)


def state_of(pair: ModelPair, state: str, region: Region | None = None) -> dict[str, Tensor]:
    """Return a copy of the model's tensors in this state."""
    with pair.at(state, region):
        return {name: tensor.clone() for name, tensor in pair.model.state_dict().items()}


def unlike(one: ModelPair, other: ModelPair) -> set[str]:
    """Return what differs between two pairs: base, fine-tuned values, the head, or what moved outside."""
    tensors = (
        {"base": pair.base, "finetuned": pair.finetuned, **pair.head()}
        | {f"{name} {place}": both[place] for name, both in pair.outside.items() for place in (0, 1)}
        for pair in (one, other)
    )
    return differing(*tensors)
