"""Runs of other versions stay readable: the frozen run of every version, with fields that no version has yet."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.mutations import NASTY
from skillviz.errors import SkillvizError
from skillviz.runs.run import RECORD
from skillviz.runs.store import Store

FROZEN = Path(__file__).parents[2] / "tests" / "runs" / "frozen"
NAMES = {
    "seeds", "versions", "seconds", "options", "counts", "majority", "mapping", "metrics", "states", "differences",
    "scaled_differences", "files",
}  # fmt: skip
"""Fields of a record whose keys are names of other things: an unknown key there is one more of them."""
SCORED = {"accuracy", "exact_match", "perplexity"}
"""The metrics of which every state has one."""


def later_fields(number: int, work: Path) -> Iterator[str]:
    """Each frozen run in turn, with one to three unknown fields anywhere; lost is one that then says other."""
    runs = sorted(path.parent for path in FROZEN.glob(f"*/*/{RECORD}"))
    stores = [Store(work / f"runs-{index}") for index in range(len(runs))]
    for run, store in zip(runs, stores, strict=True):
        shutil.copytree(run, store.root / run.name)
    texts = [(store.folders()[0] / RECORD).read_text() for store in stores]
    before = [_seen(store) for store in stores]
    for index in range(number):
        draw, at = np.random.default_rng(index), index % len(stores)
        content = json.loads(texts[at])
        places = list(_objects(content))
        for _ in range(int(draw.integers(1, 4))):
            value = NASTY[int(draw.integers(len(NASTY)))]
            places[int(draw.integers(len(places)))][f"later_{draw.integers(9)}"] = value if value == value else None
        (stores[at].folders()[0] / RECORD).write_text(json.dumps(content))
        try:
            record, *rest = _seen(stores[at])
        except (SkillvizError, ValueError) as error:
            yield f"{runs[at].parent.name}: {error}"
            continue
        noted = [note for note in record.notes if "later_" in note and "\n" not in note]
        same = record.model_copy(update={"notes": tuple(note for note in record.notes if note not in noted)})
        kept = [same, *rest] == before[at]
        yield "" if kept and len(noted) == 1 else f"{runs[at].parent.name}: {'no note' if kept else 'other numbers'}"


def _seen(store: Store) -> list[Any]:
    """The record of the store's only run, what verify says, and its headline."""
    (run,) = store.list()
    return [run.record, store.verify(run.id), {**run.headline(), "path": ""}]


def _objects(value: Any, name: str = "") -> Iterator[dict[str, Any]]:
    """The objects of a record whose keys are declared fields."""
    if isinstance(value, dict):
        if name not in NAMES:
            yield value
        for key, below in value.items():
            yield from _objects(below, "states" if name == "states" and not SCORED.isdisjoint(below) else key)
    if isinstance(value, list):
        for below in value:
            yield from _objects(below)
