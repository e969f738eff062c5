"""Compare claims about the overlap, gain and composition of regions with a study's tables; see `comparisons`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.checkpoint_series import GAP, GAP_CHANGE
from skillviz.analysis.differences import turned_round
from skillviz.analysis.overlaps import RELATED_LESS_UNRELATED
from skillviz.analysis.tables import is_inside, of_its_own_task, without_variants
from skillviz.core import formats
from skillviz.core.intervals import seeds_interval, wilson
from skillviz.studies.paper.claims import Comparison, StudyTables, beyond, within
from skillviz.studies.paper.comparisons import ALIKE, GRAFTS, Compare, drawn_from, gap, seeds_of
from skillviz.tasks.readable_names import RELATED, UNRELATED, family

SURE = 0.95  # the lower limit of "top probability near 1"


def shares_little(limit: float) -> Compare:
    """Return a comparison: two regions of one model share less than `limit` of their entries."""

    def compare(study: StudyTables) -> list[Comparison]:
        rows = study.table("overlap")
        rows = rows[rows["kind"] == "iou"]
        is_fisher = (rows[["row_localizer", "column_localizer"]] == "fisher").sum(axis=1) == 1
        return [
            Comparison(
                f"{_region(r, 'row')} and {_region(r, 'column')}", r["value"], r["low"], r["high"],
                beyond(r["low"], r["high"], limit, -1), "percent", (limit,), seeds=seeds_of(r),
            )
            for r in rows[is_fisher].to_dict("records")
        ]  # fmt: skip

    return compare


def _region(row: Mapping[Any, Any], end: str) -> str:
    """Return `sst2 stagewise 1%`: the region at one end of a row of `overlap`."""
    return f"{row[f'{end}_task']} {row[f'{end}_localizer']} {_size(row)}"


def _size(row: Mapping[Any, Any] | pd.Series) -> str:
    """Return the share of a region, or its number of entries if no share is known."""
    return formats.share(row["share"]) if row["share"] == row["share"] else f"{row['size']:.0f}"


def piles_up(study: StudyTables) -> list[Comparison]:
    """Compare the shares of top probabilities near 1 of the fine-tuned model and of the graft."""
    rows = study.table("histogram")
    comparisons = []
    for task, of_task in rows.groupby("task", sort=False):
        top = of_task[of_task["low_edge"] >= SURE - 1e-9].groupby(["state", "size", "share"], sort=False, dropna=False)
        sure = top.agg(count=("count", "sum"), n=("n", "max")).reset_index()
        tuned = sure[sure["state"] == "finetuned"]
        for _, row in sure[sure["state"] == "grafted"].iterrows():
            if len(tuned):
                comparisons.append(gap(f"{task}, grafted {_size(row)}", _sure(tuned.iloc[0]), _sure(row)))
    return comparisons


def _sure(row: pd.Series) -> pd.Series:
    low, high = wilson(float(row["count"]), float(row["n"]))
    return pd.Series({"value": row["count"] / row["n"], "low": low, "high": high})


def related_share_more(study: StudyTables) -> list[Comparison]:
    """Compare the overlap of regions of related tasks with the overlap for unrelated tasks."""
    rows = study.table("isolation")
    rows = rows[(rows["relation"] == RELATED_LESS_UNRELATED) & (rows["kind"] == "overlap")]
    return [
        Comparison(
            "all pairs of tasks", r["value"], r["low"], r["high"], beyond(r["low"], r["high"]), seeds=seeds_of(r)
        )
        for r in rows.to_dict("records")
    ]


def overlap_more(variant: str, than: str) -> Compare:
    """Return a comparison: regions of different tasks overlap more in one variant than in the other."""
    return partial(_overlap_of_variants, variant, than)


def overlap_alike(variant: str, other: str) -> Compare:
    """Return a comparison: the overlap of different tasks' regions in two variants differs by at most the margin."""

    def compare(study: StudyTables) -> list[Comparison]:
        several = _overlap_of_variants(variant, other, study)
        return [replace(one, supports=within(one.low, one.high, ALIKE), limits=(-ALIKE, ALIKE)) for one in several]

    return compare


def _overlap_of_variants(variant: str, other: str, study: StudyTables) -> list[Comparison]:
    """Return the overlap in one variant minus that in the other, for related and for unrelated tasks."""
    rows = study.table("variants")
    rows = rows[rows["kind"] == "overlap"]
    comparisons = []
    for relation in (RELATED, UNRELATED):
        sides = [rows[(rows["relation"] == relation) & (rows["variant"] == name)] for name in (variant, other)]
        if all(len(side) for side in sides):
            comparisons.append(gap(f"{relation} tasks", *(side.iloc[0] for side in sides)))
    return comparisons


def gains(limit: float, several: bool, purified: bool) -> Compare:
    """Return a comparison: a region, or a union, has at least this relative gain on its own tasks."""

    def compare(study: StudyTables) -> list[Comparison]:
        rows = study.table("gain")
        rows = rows[rows["purified"] == purified]
        rows = rows[is_inside(rows) & ((rows["region_tasks"].map(len) > 1) == several)]
        return [
            Comparison(
                f"{r['task']} from {r['region']}", r["value"], r["low"], r["high"],
                beyond(r["low"], r["high"], limit), "percent", (limit,), seeds=seeds_of(r),
            )
            for r in rows.to_dict("records")
        ]  # fmt: skip

    return compare


def helps_itself(study: StudyTables) -> list[Comparison]:
    """Compare the gain of a task's own region with the mean gain of the regions of unrelated tasks."""
    rows = study.table("gain")
    single = rows[(rows["region_tasks"].map(len) == 1) & ~rows["purified"]]
    comparisons = []
    for task, of_task in single.groupby("task", sort=False):
        of_itself = of_task[of_its_own_task(of_task)]
        others = of_task[np.array([family(of) != family(str(task)) for (of,) in of_task["region_tasks"]], dtype=bool)]
        if len(of_itself) and len(others):
            mean = pd.Series({end: float(others[end].mean()) for end in ("value", "low", "high")})
            mean["seeds"] = others["seeds"].min()
            comparisons.append(gap(str(task), of_itself.iloc[0], mean))
    return comparisons


def denser(kinds: tuple[str, ...]) -> Compare:
    """Return a comparison of the region's density in these module kinds with the whole model's, over mask seeds."""
    return _part(lambda rows: rows["kind"].isin(kinds))


def in_the_middle(study: StudyTables) -> list[Comparison]:
    """Compare the region's density in the middle half of the layers with the whole model's, over mask seeds."""

    def middle(rows: pd.DataFrame) -> pd.Series:
        layers = rows["layer"].astype(float)
        count = layers.max() + 1
        return layers.between(count / 4, 3 * count / 4 - 1)

    return _part(middle)(study)


def _part(chosen: Callable[[pd.DataFrame], pd.Series]) -> Compare:
    def compare(study: StudyTables) -> list[Comparison]:
        rows = study.table("composition")
        comparisons = []
        rows = without_variants(rows, "variant")
        for (task, localizer), of_localizer in rows.groupby(["task", "localizer"], sort=False):
            if localizer not in GRAFTS:
                continue
            ratios = [_density(seed, chosen(seed)) for _, seed in of_localizer.groupby("seed")]
            known = [ratio for ratio in ratios if np.isfinite(ratio)]
            if not known:  # a model without such a part, or an empty region
                continue
            over = seeds_interval(known)
            name = str(task) if localizer == GRAFTS[0] else f"{task}, {localizer}"
            supports = beyond(over.low, over.high, 1.0)
            comparisons.append(
                Comparison(name, over.value, over.low, over.high, supports, "times", (1.0,), seeds=over.n)
            )
        return comparisons

    return compare


def _density(rows: pd.DataFrame, chosen: pd.Series) -> float:
    part = rows[chosen]
    whole = rows["selected"].sum() / rows["total"].sum()
    return float(part["selected"].sum() / part["total"].sum() / whole) if part["total"].sum() and whole else np.nan


def follows_early(study: StudyTables) -> list[Comparison]:
    """Compare the graft's score with the model's at the first checkpoint, with margin ALIKE."""
    comparisons = []
    for task, rows in _along_training(study, GAP):
        one = rows.iloc[0]
        value, low, high = (float(one[end]) for end in ("value", "low", "high"))
        supports = within(low, high, ALIKE)
        name = f"{task}, step {one['step']:,}"
        comparisons.append(Comparison(name, value, low, high, supports, limits=(-ALIKE, ALIKE), **drawn_from(one)))
    return comparisons


def levels_off(study: StudyTables) -> list[Comparison]:
    """Compare the rise of the model's score from the first checkpoint to the last with the rise of the graft's."""
    comparisons = []
    for task, rows in _along_training(study, GAP_CHANGE):
        one = turned_round(rows).iloc[-1]
        value, low, high = (float(one[end]) for end in ("value", "low", "high"))
        comparisons.append(Comparison(task, value, low, high, beyond(low, high), seeds=seeds_of(one)))
    return comparisons


def _along_training(study: StudyTables, what: str) -> list[tuple[str, pd.DataFrame]]:
    """Return each task's rows of `checkpoints` with this `what`, by step, of the search used for the paper's."""
    rows = study.table("checkpoints")
    rows = rows[(rows["what"] == what) & (rows["localizer"] == GRAFTS[0])].sort_values("step")
    return [(str(task), of_task) for task, of_task in rows.groupby("id_task", sort=False)]
