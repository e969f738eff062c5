"""Every method of a study as points by the parameters that it touches, and its paired differences from the graft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import pandas as pd

from skillviz.analysis.differences import turned_round
from skillviz.analysis.observations import PAIR_RECIPE
from skillviz.analysis.tables import label, task_metric
from skillviz.core.localizers.table import RIVALS
from skillviz.core.metrics import metric_row
from skillviz.models.finetune.recipes import FEW, OTHER_OPTIMIZERS, RECIPES, SGD

GRAFT = "graft"
PLAIN = (PAIR_RECIPE, *(name for name in RECIPES if name not in OTHER_OPTIMIZERS))  # the method's name already says how
WHOLE = (SGD, PAIR_RECIPE)  # recipes of the model that is called the fine-tuned model
OF_REGIONS = ("graft", "complement", *RIVALS)
SCALED = "ft_scaled"  # a temperature changes no prediction
TOP_MOVEMENT = "graft_movement"
MAIN = ("pretrained", GRAFT, *(RECIPES[name].method for name in FEW), "ft", SCALED)
OTHERS = (
    *(RECIPES[name].method for name in (*FEW, *OTHER_OPTIMIZERS)), "ft", SCALED,
    TOP_MOVEMENT, *(method for method in RIVALS if method != TOP_MOVEMENT),
)  # fmt: skip
"""The methods that a graft is compared with, in this order."""
SHOWN = ("pretrained", GRAFT, *OTHERS)
SMALL = tuple(RECIPES[name].method for name in FEW)
"""Methods that train few entries of a model. Each may have several sizes, such as LoRA's ranks."""
KEYS = (
    "base", "recipe", "variant", "setting", "readout", "id_task", "task", "split", "method", "localizer",
    "search_variant", "share", "metric",
)  # fmt: skip
DIFFERENCE_KEYS = (
    "setting", "readout", "id_task", "task", "recipe", "variant", "recipe_b", "variant_b", "localizer",
    "search_variant", "share", "a", "b", "metric",
)  # fmt: skip
SAME_SIZE = 0.02  # relative: regions whose size is an outcome differ a little between seeds


@dataclass(frozen=True)
class Selection:
    """The selected data: the task that the models were fine-tuned on, its training data and readout, and the grafts'
    localizer with its search variant."""

    task: str
    setting: str
    localizer: str
    readout: str = ""
    search_variant: str = ""


def joined(tables: Sequence[pd.DataFrame], keys: Sequence[str]) -> pd.DataFrame:
    """Tables of several studies as one; rows with equal keys are taken from the first table that has them."""
    filled = [table for table in tables if not table.empty]
    if not filled:
        return pd.DataFrame()
    whole = pd.concat(filled, ignore_index=True)
    known = [key for key in keys if key in whole]
    return whole.drop_duplicates(known).reset_index(drop=True)


def points(scores: pd.DataFrame, selection: Selection, task: str) -> pd.DataFrame:
    """One row per method, size and metric on a test set.

    Columns: method, recipe, label, touched (0..1), share, metric, value, debiased, low, high, seeds, n. `touched` is 0
    for the pre-trained model, and NaN if it was not measured. A graft of a model fine-tuned by another recipe has that
    `recipe`, and the model's distinguishing label in `label`.
    """
    rows = scores[(scores["id_task"] == selection.task) & (scores["task"] == task) & (scores["split"] == "test")]
    rows = rows[
        (rows["setting"] == selection.setting) & (rows["readout"] == selection.readout) & rows["method"].isin(SHOWN)
    ]
    rows = rows[(rows["method"] != GRAFT) | _is_search(rows, selection)]
    rows = rows[(rows["method"] != SCALED) | (rows["variant"] == "")]
    named = rows["method"].isin(OF_REGIONS) & (~rows["recipe"].isin(PLAIN) | (rows["variant"] != ""))
    return _as_points(rows, named, rows["variant"].where(named, ""), _graftable(scores))


def base_names(bases: Sequence[str]) -> dict[str, str]:
    """The last part of each base's name, or the whole name if several end alike."""
    last = [PurePath(base).name or base for base in bases]
    return {base: name if last.count(name) == 1 else base for base, name in zip(bases, last, strict=True)}


def every_point(scores: pd.DataFrame, id_task: str, task: str) -> pd.DataFrame:
    """The points of every method and localizer of a study, without a selection; `label` names a localizer other than
    the first, and training data, bases and models that differ from the first."""
    rows = scores[(scores["id_task"] == id_task) & (scores["task"] == task) & (scores["split"] == "test")]
    rows = _of_the_tuned(rows[rows["method"] != "complement"])
    named = rows["method"].isin(OF_REGIONS) & ~rows["recipe"].isin(PLAIN)
    searches = list(zip(rows["localizer"], rows["search_variant"], strict=True))
    first = next((search for method, search in zip(rows["method"], searches, strict=True) if method == GRAFT), None)
    settings = [label(*pair) for pair in zip(rows["setting"], rows["readout"], strict=True)]
    bases = base_names(list(dict.fromkeys(rows["base"])))
    labels = [
        label(
            label(*search) if row["method"] == GRAFT and search != first else "",
            setting if setting != settings[0] else "",
            bases[row["base"]] if row["base"] != next(iter(bases)) else "",
            row["variant"] if row["method"] != "pretrained" else "",
        )
        for row, search, setting in zip(rows.to_dict("records"), searches, settings, strict=True)
    ]
    return _as_points(rows, named, pd.Series(labels, index=rows.index, dtype=object), _graftable(scores))


def _is_search(rows: pd.DataFrame, selection: Selection) -> pd.Series:
    return (rows["localizer"] == selection.localizer) & (rows["search_variant"] == selection.search_variant)


def _as_points(rows: pd.DataFrame, named: pd.Series, labels: pd.Series, d: Mapping[str, float]) -> pd.DataFrame:
    """The columns of `points`; the rows `named` keep their recipe."""
    rows = _of_the_tuned(rows.assign(of=rows["recipe"].where(named, ""), label=labels))
    points = pd.DataFrame(
        {
            "method": rows["method"].to_numpy(),
            "recipe": rows["of"].to_numpy(),
            "label": rows["label"].to_numpy(),
            "touched": np.where(rows["method"] == "pretrained", 0.0, rows["touched"] / rows["base"].map(d)),
            "share": rows["share"].to_numpy(),
            "metric": rows["metric"].to_numpy(),
            "value": rows["mean"].to_numpy(),
            **{name: rows[name].to_numpy() for name in ("debiased", "low", "high")},
            "seeds": rows["seeds"].to_numpy(),
            "n": rows["n"].to_numpy(),
        }
    )
    points = points[(points["method"] != SCALED) | ~points["metric"].map(lambda name: metric_row(name).of_predictions)]
    # the table may list a model without a region once for every recipe of its grafts
    of_size = points["touched"].where(points["method"].isin(SMALL))
    keys = points[["method", "recipe", "label", "share", "metric"]].assign(of_size=of_size)
    return points[~keys.duplicated()].reset_index(drop=True)


def main_ones(rows: pd.DataFrame) -> pd.DataFrame:
    """The points or differences that the page shows first: no other optimizer, no other choice of a region."""
    is_main = rows["method"].isin(MAIN)
    if "recipe" in rows:
        is_main &= (rows["recipe"] == "") & (rows["label"] == "")
    return rows[is_main].reset_index(drop=True)


def has_further(scores: pd.DataFrame, selection: Selection) -> bool:
    """True if more methods than the main ones were scored on the task."""
    shown = points(scores, selection, selection.task)
    return len(main_ones(shown)) < len(shown)


def against_graft(
    differences: pd.DataFrame, selection: Selection, task: str, share: float, scores: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Each method less the graft of this size, paired: method, metric, value, debiased, low, high, n, seeds, gained and
    lost.

    For a method that trains few entries in several sizes, the one nearest to the graft's size is used, if `scores` give
    the number of entries that each touches.
    """
    columns = ["method", "metric", "value", "debiased", "low", "high", "n", "seeds", "gained", "lost"]
    if differences.empty:
        return pd.DataFrame(columns=columns)
    rows = _of(differences, selection, task)
    rows = rows[np.isclose(rows["share"].astype(float), share, rtol=SAME_SIZE)]
    turned = rows[rows["a"] == GRAFT]
    turned = turned_round(turned).assign(method=turned["b"])
    straight = rows[rows["b"] == GRAFT].assign(method=lambda same: same["a"])
    paired = pd.concat([straight, turned], ignore_index=True)
    paired = paired[paired["method"].isin(SHOWN)]
    if scores is not None and not paired.empty:
        touched = _touched_by_small(scores, selection)
        apart = [_apart(touched, of, share) for of in zip(paired["method"], paired["variant"], strict=True)]
        paired = paired.assign(apart=apart).sort_values("apart", kind="stable")
    paired = _of_the_tuned(paired).drop_duplicates(["method", "metric"])
    paired = paired[(paired["method"] != SCALED) | ~paired["metric"].map(lambda name: metric_row(name).of_predictions)]
    return paired[columns].reset_index(drop=True)


def _touched_by_small(scores: pd.DataFrame, selection: Selection) -> dict[tuple[str, str], float]:
    """The share of the parameters that each method with few trained entries touches, by method and variant."""
    rows = scores[(scores["id_task"] == selection.task) & (scores["setting"] == selection.setting)]
    rows = rows[rows["method"].isin(SMALL) & (rows["touched"] > 0)].drop_duplicates(["method", "variant"])
    shares = rows["touched"] / rows["base"].map(_graftable(scores)).astype(float)
    return dict(zip(zip(rows["method"], rows["variant"], strict=True), shares, strict=True))


def _apart(touched: Mapping[tuple[str, str], float], of: tuple[str, str], share: float) -> float:
    """The distance of a small update's touched share from the graft's size, as |log ratio|; 0 for all other methods."""
    if of[0] not in SMALL:
        return 0.0
    return abs(float(np.log(touched[of] / share))) if of in touched else np.inf


def sizes(differences: pd.DataFrame, selection: Selection) -> list[float]:
    """The shares at which the graft was compared with another method, ascending; nearly equal ones count once."""
    if differences.empty:
        return []
    rows = _of(differences, selection, selection.task)
    rows = rows[((rows["a"] == GRAFT) | (rows["b"] == GRAFT)) & rows["share"].notna()]
    shares: list[float] = []
    for share in sorted(rows["share"].astype(float)):
        if not shares or share > shares[-1] * (1 + SAME_SIZE):
            shares.append(share)
    return shares


def main_size(differences: pd.DataFrame, selection: Selection, main: float | None) -> float:
    """The share at which most methods were compared with the graft; among ties the main one, or else the smallest."""
    return max(sizes(differences, selection), key=lambda share: _rank(differences, selection, share, main))


def scored_metric(scores: pd.DataFrame, task: str) -> str:
    """The task's own metric among those that it was scored by."""
    return task_metric(scores.loc[(scores["task"] == task) & scores["mean"].notna(), "metric"])


def other_tasks(scores: pd.DataFrame, selection: Selection) -> list[str]:
    """Tasks that models of this task were scored on without training on them."""
    rows = scores[(scores["id_task"] == selection.task) & (scores["task"] != selection.task)]
    return list(dict.fromkeys(rows["task"]))


def _of(differences: pd.DataFrame, selection: Selection, task: str) -> pd.DataFrame:
    rows = differences[(differences["id_task"] == selection.task) & (differences["task"] == task)]
    rows = rows[(rows["setting"] == selection.setting) & (rows["readout"] == selection.readout)]
    plain = (rows["variant"] == "") | rows["a"].isin(SMALL)
    rows = rows[rows["recipe"].isin(PLAIN) & plain & (rows["recipe_b"] == "")]
    return rows[(rows["localizer"] == "") | _is_search(rows, selection)]


def _of_the_tuned(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows without the temperature-scaled models of other recipes, such as BitFit: only the fine-tuned model's is
    kept."""
    return under_the_tuned_head(rows[(rows["method"] != SCALED) | rows["recipe"].isin(WHOLE)])


def under_the_tuned_head(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows without the base under other recipes' heads, if it is also there under the fine-tuned model's head."""
    is_base, is_of_it = rows["method"] == "pretrained", rows["recipe"].isin(WHOLE)
    place = pd.MultiIndex.from_frame(rows[["id_task", "task", "setting", "readout"]])
    return rows[~is_base | is_of_it | ~place.isin(place[is_base & is_of_it])]


def _rank(differences: pd.DataFrame, selection: Selection, share: float, main: float | None) -> tuple[int, bool, float]:
    rivals = against_graft(differences, selection, selection.task, share)["method"].nunique()
    return rivals, main is not None and bool(np.isclose(share, main, rtol=SAME_SIZE)), -share


def _graftable(scores: pd.DataFrame) -> dict[str, float]:
    """The number of graftable parameters of each base, of which sizes are shares."""
    known = scores[scores["size"].notna() & (scores["share"] > 0)]
    graftable = (known["size"] / known["share"]).groupby(known["base"]).median()
    return {**scores.groupby("base")["touched"].max(), **graftable}
