"""Encoded examples of tiny_task for a pair, and loaded tiny pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from skillviz.core.encoded import Encoded
from skillviz.core.region import Region
from skillviz.models.pair import ModelPair, load_pair
from skillviz.tasks.encode import encode
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from tests.tiny import FAMILIES, MASKED, tiny_pair, tiny_task

FITTING = [(f, r) for f in FAMILIES for r in (("head", "prompt") if f in MASKED else ("head", "causal"))]


def open_pair(folder: Path, family: str = "bert", readout: str = "head", **options: Any) -> ModelPair:
    """Save a tiny pair and load it on the CPU; `load_dtype` is the dtype of the load."""
    dtype = options.pop("load_dtype", "float32")
    return load_pair(*tiny_pair(folder, family, readout, **options), device="cpu", dtype=dtype)


def examples(folder: Path, pair: ModelPair, rows: int = 16, labels: int = 2) -> Encoded:
    """Return the test rows of tiny_task, encoded for the pair's readout."""
    found = task(tiny_task(folder / "task", rows=2 * rows, labels=labels))
    return encode(found, load(found).test, pair.tokenizer, pair.readout_name)


def some_region(pair: ModelPair, share: float = 0.1, seed: int = 0) -> Region:
    """Return a random region with about this share of the pair's entries."""
    flat = np.random.default_rng(seed).choice(pair.d, max(1, int(share * pair.d)), replace=False)
    return Region.from_flat(flat, pair.table.shapes)
