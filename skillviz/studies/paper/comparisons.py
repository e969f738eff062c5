"""Compare a claim of the paper with a study's tables; each function returns one comparison per task or pair.

A comparison is a row with its interval. For two rows that are not paired, their intervals are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.differences import UNPAIRED, turned_round
from skillviz.analysis.observations import PAIR_RECIPE
from skillviz.analysis.seeds import SeedsEstimate, apart
from skillviz.analysis.tables import label, without_variants
from skillviz.core.methods import METHODS
from skillviz.models.finetune.recipes import SGD
from skillviz.studies.paper.claims import Comparison, StudyTables, at_main, beyond, of_task_metric, within
from skillviz.studies.paper.published_values import SIZED, stands_for

TASK_METRIC = "own"
ALIKE = 0.03  # the margin of "equally good"
NEAR = 3.0  # times: sizes that count as equal, as the grafts' sizes are at least two apart
LARGE = {("mpqa", "yelp"), ("mpqa", "sst2"), ("qnli", "mnli_01"), ("qnli", "snli_01")}
GRAFTS = ("stagewise", "learned")
Keep = Callable[[str, str], bool]
Compare = Callable[[StudyTables], list[Comparison]]


def own_task(id_task: str, task: str) -> bool:
    """True on the model's own task."""
    return id_task == task


def large_shift(id_task: str, task: str) -> bool:
    """True if the paper calls the shift large: from QNLI to inference, from MPQA to reviews."""
    return id_task != task and (stands_for(id_task), stands_for(task)) in LARGE


def small_shift(id_task: str, task: str) -> bool:
    """True for any other shift."""
    return id_task != task and not large_shift(id_task, task)


def other_task(id_task: str, task: str) -> bool:
    """True on data that the model was not tuned on."""
    return id_task != task


def rows_of(study: StudyTables, a: str, b: str, metric: str, keep: Keep = own_task) -> pd.DataFrame:
    """The rows a - b of `differences`, or b - a turned round, at the main size, of the search used for the paper's."""
    return at_main(_rows_of(study, a, b, metric, keep), study.main)


def _rows_of(study: StudyTables, a: str, b: str, metric: str, keep: Keep) -> pd.DataFrame:
    """The same rows at all sizes.

    Rows of a graft are limited to tasks on which fine-tuning gains; on other tasks there is no gain to recover.
    """
    rows = study.table("differences")
    turned = rows[(rows["a"] == b) & (rows["b"] == a)]
    rows = pd.concat([rows[(rows["a"] == a) & (rows["b"] == b)], turned_round(turned)], ignore_index=True)
    rows = rows[np.array([keep(i, t) for i, t in zip(rows["id_task"], rows["task"], strict=True)], dtype=bool)]
    rows = of_task_metric(rows) if metric == TASK_METRIC else rows[rows["metric"] == metric]
    gained = study.table("recovered")
    if "graft" in (a, b) and len(gained):
        rows = rows[rows["id_task"].isin(gained["id_task"])]
    localizer = rows["localizer"]
    return rows[localizer.eq(GRAFTS[0]) | ~localizer.isin(GRAFTS)] if localizer.eq(GRAFTS[0]).any() else rows


def where(row: Mapping[Any, Any]) -> str:
    """Return `sst2 to imdb` or `sst2`, with the training data in parentheses if it is not all of it."""
    name = str(row["task"]) if row["id_task"] == row["task"] else f"{row['id_task']} to {row['task']}"
    setting = label(row.get("setting", "all"), row.get("readout", ""))
    return name if setting == "all" else f"{name} ({setting})"


def less(a: str, b: str, metric: str = TASK_METRIC, sign: int = 1, keep: Keep = own_task, limit: float = 0) -> Compare:
    """Return a comparison: a - b is above `limit` (below it for sign -1)."""
    return _compared(a, b, metric, keep, partial(beyond, limit=limit, sign=sign), (limit,))


def alike(a: str, b: str, keep: Keep = own_task) -> Compare:
    """Return a comparison of the task's metric: a - b is within the margin."""
    return _compared(a, b, TASK_METRIC, keep, partial(within, margin=ALIKE), (-ALIKE, ALIKE))


def at_equal_size(metric: str = TASK_METRIC, sign: int = 1, keep: Keep = own_task) -> Compare:
    """Return a comparison for each LoRA or adapter model: it minus the graft nearest in size is above 0 (below: -1).

    A size is a number of touched parameters. A model more than NEAR times larger or smaller than every graft is left
    out.
    """

    def compare(study: StudyTables) -> list[Comparison]:
        scores, comparisons = study.table("scores"), []
        regions = scores[scores["share"] > 0]
        d = float((regions["size"] / regions["share"]).median())
        for method in SIZED:
            touched = scores[scores["method"] == method].groupby("variant")["touched"].mean() / d
            rows = _rows_of(study, method, "graft", metric, keep)
            rows = rows[rows["variant"].isin(touched.index)]
            apart = np.abs(np.log(rows["share"].astype(float) / rows["variant"].map(touched).astype(float)))
            rows = rows.assign(apart=apart).sort_values("apart", kind="stable")
            one_each = rows.drop_duplicates(["id_task", "task", "setting", "readout", "variant"])
            comparisons += [
                Comparison(
                    f"{METHODS[method].title.removesuffix(' adapters')} {r['variant']}: {where(r)}",
                    r["value"], r["low"], r["high"],
                    beyond(r["low"], r["high"], sign=sign), debiased=_debiased(r), **drawn_from(r),
                )
                for r in one_each[one_each["apart"] <= np.log(NEAR)].to_dict("records")
            ]  # fmt: skip
        return comparisons

    return compare


def _compared(
    a: str, b: str, metric: str, keep: Keep, verdict: Callable[[float, float], Any], limits: tuple[float, ...]
) -> Compare:
    def compare(study: StudyTables) -> list[Comparison]:
        return [
            Comparison(
                where(r), r["value"], r["low"], r["high"], verdict(r["low"], r["high"]),
                limits=limits, debiased=_debiased(r), **drawn_from(r),
            )
            for r in rows_of(study, a, b, metric, keep).to_dict("records")
        ]  # fmt: skip

    return compare


def before_the_last(compare: Compare) -> Compare:
    """Return the comparisons of all tasks but the one learned last."""

    def of_earlier(study: StudyTables) -> list[Comparison]:
        rows = study.table("stages")
        learned = rows[rows["mode"] != "independent"].groupby("task")["stage"].min()
        return [one for one in compare(study) if learned.get(one.where, np.inf) < learned.max()]

    return of_earlier


def level(study: StudyTables, method: str, metric: str, task: str, setting: str, readout: str) -> float:
    """Return a method's mean on its own task; NaN if it was not scored."""
    rows = study.table("scores")
    rows = rows[(rows["method"] == method) & (rows["id_task"] == task) & (rows["task"] == task)]
    rows = rows[(rows["metric"] == metric) & (rows["split"] == "test")]
    rows = rows[(rows["setting"] == setting) & (rows["readout"] == readout)]
    return float(rows["mean"].iloc[0]) if len(rows) else float("nan")


def keeps(share: float) -> Compare:
    """Return a comparison: a graft's share of the fine-tuned score is above `share`; none for a score of 0."""

    def compare(study: StudyTables) -> list[Comparison]:
        comparisons = []
        for r in rows_of(study, "graft", "ft", TASK_METRIC).to_dict("records"):
            tuned = level(study, "ft", r["metric"], r["task"], r["setting"], r["readout"])
            if not tuned > 0:  # NaN too
                continue
            value, low, high = (1 + r[end] / tuned for end in ("value", "low", "high"))
            supports = beyond(low, high, share)
            comparisons.append(Comparison(where(r), value, low, high, supports, "percent", (share,), seeds=seeds_of(r)))
        return [one for one in comparisons if np.isfinite(one.value)]

    return compare


def curves_meet(study: StudyTables) -> list[Comparison]:
    """Compare the search's lead over top movement at the largest size with that at the smallest."""
    rows = study.table("differences")
    rows = of_task_metric(
        rows[(rows["a"] == "graft") & (rows["b"] == "graft_movement") & (rows["id_task"] == rows["task"])]
    )
    comparisons = []
    rows = without_variants(rows[rows["localizer"] == GRAFTS[0]], "search_variant")
    for task, of_task in rows.groupby("task", sort=False):
        of_task = of_task.sort_values("share")
        if of_task["share"].nunique() > 1:
            comparisons.append(gap(str(task), of_task.iloc[0], of_task.iloc[-1]))
    return comparisons


def sizes_alike(study: StudyTables) -> list[Comparison]:
    """Compare the task's metric of the graft at the smallest size with that at the largest, with margin ALIKE."""
    rows = study.table("scores")
    rows = of_task_metric(
        rows[(rows["method"] == "graft") & (rows["split"] == "test") & (rows["id_task"] == rows["task"])]
    )
    comparisons = []
    for task, of_task in without_variants(rows, "search_variant").groupby("task", sort=False):
        of_task = of_task.sort_values("share").assign(value=of_task["mean"])
        if of_task["share"].nunique() > 1:
            one = gap(str(task), of_task.iloc[0], of_task.iloc[-1])
            comparisons.append(replace(one, supports=within(one.low, one.high, ALIKE), limits=(-ALIKE, ALIKE)))
    return comparisons


def recovers_less(recipe: str, than: str) -> Compare:
    """Return a comparison: grafts of `than` models recover more than grafts of `recipe` models, at the main size."""

    def compare(study: StudyTables) -> list[Comparison]:
        rows = study.table("scores")
        rows = rows[(rows["method"] == "graft") & (rows["metric"] == "recovered") & (rows["split"] == "test")]
        rows = without_variants(rows[rows["localizer"] == GRAFTS[0]], "variant", "search_variant")
        rows = at_main(rows, study.main)
        comparisons = []
        for task, of_task in rows[rows["id_task"] == rows["task"]].groupby("task", sort=False):
            sides = [of_task[of_task["recipe"].isin(names)] for names in (_alias(than), _alias(recipe))]
            if all(len(side) for side in sides):
                one, other = (side.iloc[0].rename({"mean": "value"}) for side in sides)
                comparisons.append(gap(str(task), one, other))
        return comparisons

    return compare


def _alias(recipe: str) -> tuple[str, ...]:
    """Return the names of a recipe in tables: a stored pair was tuned with plain SGD."""
    return (SGD, PAIR_RECIPE) if recipe == SGD else (recipe,)


def gap(name: str, a: pd.Series, b: pd.Series) -> Comparison:
    """Return a - b of two rows that are not paired, its interval joined from theirs."""
    less = apart(_estimate(a), _estimate(b))
    seeds = min((n for n in (seeds_of(a), seeds_of(b)) if n > 1), default=1)
    return Comparison(
        name, less.value, less.low, less.high, beyond(less.low, less.high), debiased=less.debiased,
        seeds=seeds, is_paired=False,
    )  # fmt: skip


def _estimate(row: Mapping[Any, Any] | pd.Series) -> SeedsEstimate:
    value, low, high = (float(row[end]) for end in ("value", "low", "high"))
    return SeedsEstimate(value, low, high, np.nan, seeds_of(row), _debiased(row))


def _debiased(row: Mapping[Any, Any] | pd.Series) -> float:
    """Return the center of a row's interval if it is not the row's value; NaN otherwise."""
    return float(row.get("debiased", np.nan))


def seeds_of(row: Mapping[Any, Any] | pd.Series) -> int:
    """Return the number of seeds of a row's interval; 1 if its table has none."""
    return int(row.get("seeds", 1))


def drawn_from(row: Mapping[Any, Any] | pd.Series) -> dict[str, Any]:
    """Return how a row of differences was drawn, for a comparison: seeds, examples, and whether it is paired."""
    columns = {"examples": "n", "gained": "gained", "lost": "lost"}
    counts = {name: row.get(column, np.nan) for name, column in columns.items()}
    counts = {name: np.nan if pd.isna(count) else float(count) for name, count in counts.items()}
    return {"seeds": seeds_of(row), "is_paired": row.get("over") != UNPAIRED, **counts}
