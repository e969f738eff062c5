"""What regions of several tasks share, over mask seeds: rows of the tables `overlap` and `isolation`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from skillviz.core.overlap import chance_iou, chance_overlap, iou_matrix, overlap_matrix
from skillviz.core.region import Region
from skillviz.studies.family import RELATED, SAME, UNRELATED, relation
from skillviz.studies.means import over_seeds

KINDS = ("overlap", "iou")
Regions = Mapping[str, Mapping[int, Region]]
"""Regions by task, then mask seed."""


def overlap_rows(regions: Regions) -> list[dict[str, Any]]:
    """One row a pair of tasks and kind: the mean over pairs of regions of theirs, with a t-interval over seeds.

    `overlap` of row i and column j is |g_i and g_j| / |g_j|. A task with itself is told between regions of two
    different mask seeds, which is how much could be shared at best; with a single seed it is 1.
    """
    shares = {kind: _shares(regions, kind) for kind in KINDS}
    rows = []
    for kind, (a, b) in itertools.product(KINDS, itertools.product(regions, repeat=2)):
        per_seed = _by_seed(shares[kind], a, b)
        rows.append(
            {
                "row": a, "column": b, "kind": kind, **_over(per_seed, kind),
                "chance": float(np.mean([_chance(kind, one, two) for one, two in _region_pairs(regions, a, b)])),
                "relation": relation(a, b),
            }
        )  # fmt: skip
    return rows


def isolation_rows(regions: Regions) -> list[dict[str, Any]]:
    """One row a kind and relation: the mean over all such pairs of tasks, with a t-interval over mask seeds.

    `related - unrelated` is the difference within each seed. The tasks are those of the study: the intervals say
    nothing of other tasks.
    """
    rows = []
    pairs = [(a, b) for a in regions for b in regions]
    for kind in KINDS:
        shares = _shares(regions, kind)
        found = {}
        for which in (SAME, RELATED, UNRELATED):
            own = [_by_seed(shares, a, b) for a, b in pairs if relation(a, b) == which]
            if own:
                least = min(len(values) for values in own)
                found[which] = np.mean([values[:least] for values in own], axis=0)
                chance = [_chance(kind, *two) for a, b in pairs if relation(a, b) == which
                          for two in _region_pairs(regions, a, b)]  # fmt: skip
                told = {"pairs": len(own), "chance": float(np.mean(chance))}
                rows.append({"kind": kind, "relation": which, **_over(found[which], kind), **told})
        if RELATED in found and UNRELATED in found:
            least = min(len(found[RELATED]), len(found[UNRELATED]))
            gap = found[RELATED][:least] - found[UNRELATED][:least]
            told = {"pairs": len(pairs) - len(regions), "chance": 0.0}
            rows.append({"kind": kind, "relation": f"{RELATED} - {UNRELATED}", **_over(gap), **told})
    return rows


def _shares(regions: Regions, kind: str) -> dict[tuple[tuple[str, int], tuple[str, int]], float]:
    """The share of every two regions, by (task, seed) twice."""
    named = {(task, seed): region for task, own in regions.items() for seed, region in own.items()}
    texts = {f"{number}": key for number, key in enumerate(named)}
    matrix = (overlap_matrix if kind == "overlap" else iou_matrix)({t: named[key] for t, key in texts.items()})
    values = matrix.to_numpy()
    keys = list(texts.values())
    return {(a, b): float(values[i, j]) for i, a in enumerate(keys) for j, b in enumerate(keys)}


def _by_seed(shares: Mapping[Any, float], a: str, b: str) -> np.ndarray:
    """One value a mask seed of a: the mean of what it shares with b's regions, of other seeds where a is b."""
    seeds = {task: sorted({key[1] for pair in shares for key in pair if key[0] == task}) for task in (a, b)}
    found = []
    for seed in seeds[a]:
        others = [other for other in seeds[b] if a != b or other != seed]
        if a == b and len(seeds[a]) == 1:
            others = seeds[b]
        found.append(np.mean([shares[(a, seed), (b, other)] for other in others]))
    return np.array(found)


def _region_pairs(regions: Regions, a: str, b: str) -> Iterator[tuple[Region, Region]]:
    for (i, one), (j, two) in itertools.product(regions[a].items(), regions[b].items()):
        if a != b or i != j or len(regions[a]) == 1:
            yield one, two


def _chance(kind: str, a: Region, b: Region) -> float:
    return chance_overlap(a.size, a.d) if kind == "overlap" else chance_iou(a.size, b.size, a.d)


def _over(values: np.ndarray, kind: str = "") -> dict[str, Any]:
    found = over_seeds(values, kind)
    return {"value": found.value, "low": found.low, "high": found.high, "seeds": found.n}
