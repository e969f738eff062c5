"""The tables `overlap` and `isolation`: the entries that regions of several tasks, or of several localizers, share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_, sub
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skillviz.analysis.seeds import cut, mean_of
from skillviz.analysis.tables import check
from skillviz.core.intervals import jackknife_half
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.overlap import Chance, iou_matrix, matched_chance, overlap_matrix
from skillviz.core.region import Region
from skillviz.runs.run import RANKING, Run
from skillviz.tasks.readable_names import RELATED, SAME, UNRELATED, relation

KINDS = ("overlap", "iou")
RELATED_LESS_UNRELATED = f"{RELATED} - {UNRELATED}"
Regions = Mapping[str, Mapping[int, Region]]
"""Regions by task, then mask seed."""


def overlap(regions: Regions) -> pd.DataFrame:
    """The table `overlap` of several tasks' regions: one row per pair of tasks and kind.

    The value is the mean over pairs of their regions, with a jackknife interval over seeds. `overlap` of row i and
    column j is |g_i and g_j| / |g_j|. A task is compared with itself between regions of two different mask seeds, which
    gives the most that can be shared; with a single seed it is 1.
    """
    shares = {kind: _shares(regions, kind) for kind in KINDS}
    rows = []
    for kind, (a, b) in itertools.product(KINDS, itertools.product(regions, repeat=2)):
        left = _over_tasks([shares[kind][a, a]], True) if a == b else _between(shares[kind][a, b])
        estimate = _estimate(left, kind)
        is_itself = a == b and len(regions[a]) == 1
        rows.append(
            {
                **_ends(a, b), "kind": kind, **estimate, **({"value": 1.0} if is_itself else {}),
                **matched_chance(list(_region_pairs(regions, a, b)), kind).columns(), "relation": relation(a, b),
            }
        )  # fmt: skip
    return check(pd.DataFrame(rows), "overlap")


def _ends(
    row: str, column: str, localizers: tuple[str, str] = ("", ""), size: float = np.nan, share: float = np.nan
) -> dict[str, Any]:
    """The columns that name the two regions."""
    return {
        "row_task": row, "row_localizer": localizers[0], "column_task": column, "column_localizer": localizers[1],
        "size": size, "share": share,
    }  # fmt: skip


def isolation(regions: Regions) -> pd.DataFrame:
    """One row per kind and relation: the mean over all such pairs of tasks, with a jackknife interval over mask seeds.

    Only mask seeds that every task has are used; a seed is left out in all tasks at once. `related - unrelated` is the
    difference of the two means, with an interval made in the same way. The tasks are fixed: the intervals do not cover
    other tasks. Tasks without a common seed have no interval, and with one seed there is no row `same`.
    """
    rows = []
    common = set.intersection(*map(set, regions.values())) if regions else set()
    if common:
        regions = {task: {seed: by_seed[seed] for seed in sorted(common)} for task, by_seed in regions.items()}
    pairs = [(a, b) for a in regions for b in regions]
    for kind in KINDS:
        shares = _shares(regions, kind)
        means = {}
        for which in (SAME, RELATED, UNRELATED):
            those = [pair for pair in pairs if relation(*pair) == which]
            if those and (which != SAME or max(map(len, regions.values())) > 1):
                means[which] = _over_tasks([shares[pair] for pair in those], which == SAME, bool(common))
                chance = matched_chance([two for pair in those for two in _region_pairs(regions, *pair)], kind)
                counts = {"pairs": len(those), **chance.columns()}
                rows.append({"kind": kind, "relation": which, **_estimate(means[which], kind), **counts})
        if RELATED in means and UNRELATED in means:
            gap = means[RELATED].less(means[UNRELATED])
            counts = {"pairs": len(pairs) - len(regions), **Chance(0.0, np.nan, np.nan).columns()}
            rows.append({"kind": kind, "relation": RELATED_LESS_UNRELATED, **_estimate(gap), **counts})
    return check(pd.DataFrame(rows), "isolation")


class Left(NamedTuple):
    """A mean over seeds, and the means without one seed: one array for each group of seeds that are left out in turn.

    Pairs that share a region are not independent; the jackknife over regions is valid for such means (Arvesen 1969).
    """

    value: float
    without: tuple[np.ndarray, ...]

    def less(self, other: Left) -> Left:
        """The difference of two means over the same seeds."""
        without = (a - b for a, b in zip(self.without, other.without, strict=True))
        return Left(self.value - other.value, tuple(without))

    @property
    def seeds(self) -> int:
        """The number of seeds in the smallest group."""
        return min((len(values) for values in self.without), default=1)

    def half(self) -> float:
        """Half the interval; NaN if no seed can be left out."""
        return jackknife_half(self.without)


def _between(shares: np.ndarray) -> Left:
    """The mean over the regions of two tasks, [seed of one, seed of the other]: a seed of either is left out in turn.

    A task with one seed is held fixed if the other has several.
    """
    groups = [np.delete(shares, i, axis=0).mean() if len(shares) > 1 else np.nan for i in range(len(shares))]
    others = [np.delete(shares, j, 1).mean() if shares.shape[1] > 1 else np.nan for j in range(shares.shape[1])]
    without = tuple(np.array(values) for values in (groups, others) if len(values) > 1)
    return Left(float(shares.mean()), without or (np.array([np.nan]),))


def _over_tasks(shares: Sequence[np.ndarray], is_same: bool, has_common: bool = True) -> Left:
    """The mean over pairs of tasks, each [seed, seed]: a seed is left out in all of them at once.

    With `is_same` the pairs are each task with itself, and a task with a single region is skipped. There is no interval
    if the tasks have no common seeds.
    """

    def mean(of: Sequence[np.ndarray]) -> float:
        means = [_mean_of(one, is_same) for one in of if not is_same or len(one) > 1]
        return float(np.mean(means)) if means else float("nan")

    n = len(shares[0]) if has_common else 1
    without = [mean([np.delete(np.delete(one, i, 0), i, 1) for one in shares]) if n > 1 else np.nan for i in range(n)]
    return Left(mean(shares), (np.array(without),))


def _mean_of(shares: np.ndarray, is_same: bool) -> float:
    """The mean; for one task's regions, the mean over two different ones."""
    n = len(shares)
    return float((shares.sum() - np.trace(shares)) / (n * (n - 1))) if is_same else float(shares.mean())


def _shares(regions: Regions, kind: str) -> dict[tuple[str, str], np.ndarray]:
    """The share of every two regions, by two tasks: [seed of one, seed of the other]."""
    named = [(task, region) for task, by_seed in regions.items() for region in by_seed.values()]
    matrix = (overlap_matrix if kind == "overlap" else iou_matrix)({str(i): one for i, (_, one) in enumerate(named)})
    values = matrix.to_numpy()
    places = {task: [i for i, (of, _) in enumerate(named) if of == task] for task in regions}
    return {(a, b): values[np.ix_(places[a], places[b])] for a in regions for b in regions}


def _region_pairs(regions: Regions, a: str, b: str) -> Iterator[tuple[Region, Region]]:
    for (i, one), (j, two) in itertools.product(regions[a].items(), regions[b].items()):
        if a != b or i != j or len(regions[a]) == 1:
            yield one, two


def _estimate(mean: Left, kind: str = "") -> dict[str, Any]:
    """value, low, high and seeds; the ends are cut to the range of a share."""
    half = mean.half()
    low, high = cut(kind, mean.value - half, mean.value + half)
    return {"value": mean.value, "low": low, "high": high, "seeds": mean.seeds}


class Shared(NamedTuple):
    """The size of some tasks' union, the entries that any other task's region also holds, and those of each."""

    size: int
    shared: int
    by_task: dict[str, int]


def shared_with_others(regions: Mapping[str, Region], chosen: Sequence[str]) -> Shared:
    """Return the counts of the union of the chosen tasks' regions, against the regions of all other tasks."""
    union = reduce(or_, (regions[task] for task in chosen))
    rest = {task: region for task, region in regions.items() if task not in chosen}
    own = reduce(sub, rest.values(), union)
    return Shared(union.size, union.size - own.size, {task: (union & region).size for task, region in rest.items()})


def overlap_of_localizers(runs: Sequence[Run], of: str = "stagewise") -> pd.DataFrame:
    """The table `overlap` of localizers: IoU of the regions of `of` with the regions of each localizer, on the same
    pair and at one size.

    For `of` itself, IoU is between regions of different seeds. The mean is over pairs of seeds, with a jackknife
    interval over seeds as in `overlap`.
    """
    rows = []
    groups: dict[tuple[str, str], dict[str, dict[int, Region]]] = {}
    for run in runs:
        for requested, region in _regions_by_size(run).items():
            by_localizer = groups.setdefault((run.record.task_name, requested), {})
            by_localizer.setdefault(run.spec.localizer, {}).setdefault(run.spec.seed, region)
    for (task, _), by_localizer in groups.items():
        for rival, regions in by_localizer.items():
            estimate = _iou(by_localizer.get(of, {}), regions, rival == of)
            if estimate:
                every = by_localizer[of].values()
                size, share = (mean_of(values) for values in zip(*((r.size, r.size / r.d) for r in every), strict=True))
                ends = _ends(task, task, (of, rival), size, share)
                rows.append({**ends, "kind": "iou", **estimate, "relation": SAME})
    return check(pd.DataFrame(rows), "overlap")


def _regions_by_size(run: Run) -> dict[str, Region]:
    """The regions of a run by requested size: the main one, and the others if the run has a ranking for all sizes."""
    regions = {run.spec.sizes[0]: run.region()}
    if LOCALIZERS[run.spec.localizer].nested and RANKING in run.files:
        for requested, size in zip(run.spec.sizes, run.record.sizes, strict=False):
            regions.setdefault(requested, run.cut(size))
    return regions


def _iou(regions: Mapping[int, Region], rivals: Mapping[int, Region], is_same: bool) -> dict[str, Any] | None:
    """Mean IoU over pairs of seeds, its jackknife interval over both sides' seeds, and IoU by chance; None without a
    pair."""
    pairs = [(regions[a], rivals[b]) for a, b in itertools.product(regions, rivals) if not is_same or a != b]
    if not pairs:
        return None
    every = [*regions.values(), *rivals.values()]
    shares = iou_matrix({str(i): one for i, one in enumerate(every)}).to_numpy()[: len(regions), len(regions) :]
    left = _over_tasks([shares], True) if is_same else _between(shares)
    return {**_estimate(left, "iou"), **matched_chance(pairs, "iou").columns()}
