"""A study's tables as Markdown, for docs/results.md: of each experiment the rows that its claims rest on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.plots.methods import RECIPES, method_style
from skillviz.studies.paper.verdicts import at_main, beyond, own_metric

SEARCHED = ("stagewise", "learned", "learned-ranked", "frank-wolfe", "linearized")
MAIN_SEARCH = SEARCHED[0]
GIVEN = ("", "sgd", "given", "graft-retrain", "bitfit", "lora")
# Of the experiments that are told method by method: which ones, and whether on other data alone.
METHODS: dict[str, tuple[tuple[str, ...], bool]] = {
    "table1": (("ft", "graft", "graft_retrain", "bitfit", "lora"), False),
    "table3": (("pretrained", "ft", "graft", "graft_retrain", "bitfit", "lora"), True),
    "table8": (("pretrained", "ft", "graft", "graft_fish", "graft_random"), False),
    "figure3": (("pretrained", "ft", "graft"), False),
}


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table; one line where there are no rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [f"| {' | '.join(head)} |", "| --- " * len(head) + "|", *lines] if lines else ["No row."]


def percent(value: float, low: float = np.nan, high: float = np.nan) -> str:
    """`87.0 (85.1–88.9)`: shares in percent, without the sign."""
    if not np.isfinite(value):
        return formats.MISSING
    ends = f" ({formats.percent_interval(low, high)})" if np.isfinite(low) and np.isfinite(high) else ""
    return f"{formats.number(100 * value, 1)}{ends}"


Held = dict[str, pd.DataFrame]


def cell(rows: pd.DataFrame, metric: str = "") -> str:
    """A metric's mean with its interval, of the first row; the task's own metric where none is named."""
    metric = metric or ("f1" if (rows["metric"] == "f1").any() else "accuracy")
    own = rows[rows["metric"] == metric]
    if own.empty:
        return ""
    row = own.iloc[0]
    pooled = np.isfinite(row["pooled_low"])
    ends = (row["pooled_low"], row["pooled_high"]) if pooled else (row["low"], row["high"])
    # over few seeds that differ much the interval can pass what a share can be
    return percent(row["mean"], *(np.clip(ends, 0, 1) if metric in BOUNDED else ends))


BOUNDED = ("accuracy", "f1", "ece", "agreement")


def tested(scores: pd.DataFrame) -> pd.DataFrame:
    """The rows on test, with `where`: the task, or what was trained on and what is asked."""
    rows = scores[scores["split"] == "test"]
    where = [
        (task if id_task == task else f"{id_task} to {task}") + ("" if setting == "all" else f" ({setting})")
        for id_task, task, setting in zip(rows["id_task"], rows["task"], rows["setting"], strict=True)
    ]
    return rows.assign(where=where)


def at_size(rows: pd.DataFrame, main: float | None) -> pd.DataFrame:
    """Rows without a size, and those of the size nearest to the main one."""
    return pd.concat([rows[rows["share"].isna()], at_main(rows[rows["share"].notna()], main)])


def named(method: str, localizer: object, recipe: str) -> str:
    """`graft, stagewise`; with the recipe where that is not plain SGD."""
    name = method_style(method).title
    name += f", {localizer}" if isinstance(localizer, str) and localizer and method == "graft" else ""
    return name if recipe in GIVEN or method == recipe.replace("-", "_") else f"{name} ({RECIPES.get(recipe, recipe)})"


def methods(held: Held, main: float | None, name: str) -> list[str]:
    """The experiment's methods at the main size, one a column: the task's metric and ECE with intervals."""
    wanted, elsewhere = METHODS.get(name, (tuple(held["scores"]["method"].unique()), False))
    rows = tested(held["scores"])
    rows = at_size(rows[rows["method"].isin(wanted)], main)
    rows = rows[rows["id_task"] != rows["task"]] if elsewhere and (rows["id_task"] != rows["task"]).any() else rows
    made: dict[str, dict[str, str]] = {}
    columns: dict[str, int] = {}
    for (where, method, localizer, recipe), own in rows.groupby(KEYS, sort=False, dropna=False):
        told = named(str(method), localizer, "" if method == "pretrained" else str(recipe))
        told += f", {formats.share(float(own['share'].iloc[0]))}" if own["share"].notna().any() else ""
        columns.setdefault(told, wanted.index(method))
        made.setdefault(f"{where}, n = {formats.count(int(own['n'].iloc[0]))}", {}).setdefault(
            told, f"{cell(own)}; {cell(own, 'ece') or formats.MISSING}"
        )
    heads = sorted(columns, key=columns.__getitem__)
    lines = [[where, *(own.get(told, "") for told in heads)] for where, own in sorted(made.items())]
    return [*markdown(("task", *heads), lines), "", "Accuracy or F1; ECE, on test, %."]


KEYS = ["where", "method", "localizer", "recipe"]


def curves(held: Held, main: float | None, name: str) -> list[str]:
    """Accuracy or F1 of every kind of region by its size, beside the whole models."""
    rows = tested(held["scores"])
    rows = rows[~rows["method"].isin(("complement", "ft_scaled"))]
    rows = rows if name == "figure7" else rows[rows["id_task"] == rows["task"]]
    whole = rows[rows["share"].isna()]
    rows = rows[rows["share"].notna()]
    sizes = {f"{share:.2g}": share for share in sorted(rows[rows["localizer"] != "learned"]["share"])}
    ends = {where: [cell(own[own["method"].isin(m)]) for m in WHOLE] for where, own in whole.groupby("where")}
    made = []
    for (where, method, localizer, recipe), own in rows.groupby(KEYS, sort=False, dropna=False):
        told = named(str(method), localizer, str(recipe))
        at = own["share"].map("{:.2g}".format)
        values = [cell(own[at == one]) for one in sizes]
        if localizer == "learned":
            values = [f"at {formats.share(float(own['share'].iloc[0]))}, its own: {cell(own)}", *["" for _ in sizes]][
                :-1
            ]
        told += ", searched" if method == "graft_biases" and localizer != "biases" else ""
        pre, tuned = ends.get(where, ["", ""])
        made.append([str(where), told, pre, *values, tuned])
    head = ("task", "region", "pre-trained", *(formats.share(share) for share in sizes.values()), "fine-tuned")
    return [*markdown(head, sorted(made, key=lambda row: row[0])), "", "Accuracy or F1 on test, %."]


WHOLE = (("pretrained",), ("ft", "adamw", "adamw_l1"))


def less(held: Held, a: str, b: str, metric: str, main: float | None) -> dict[str, str]:
    """By task, or trained on and asked of: a less b of the main search at the main size, in points."""
    rows = held.get("differences", pd.DataFrame())
    if rows.empty:
        return {}
    rows = rows[(rows["a"] == a) & (rows["b"] == b) & rows["localizer"].eq(MAIN_SEARCH) & rows["setting"].eq("all")]
    rows = at_main(own_metric(rows) if metric == "own" else rows[rows["metric"] == metric], main)
    return {
        (r["task"] if r["id_task"] == r["task"] else f"{r['id_task']} to {r['task']}"): percent(
            r["value"], r["low"], r["high"]
        )
        for r in rows.to_dict("records")
    }


def needed(held: Held) -> dict[str, list[str]]:
    """By task: the smallest region of the main search with 95 % of the gain, what it gains on test, and its ECE."""
    rows = held.get("recovered", pd.DataFrame())
    if rows.empty:
        return {}
    rows = rows[(rows["localizer"] == MAIN_SEARCH) & np.isclose(rows["gain_share"], 0.95)]
    return {
        r["id_task"]: [size_at(r), *(percent(r[k], r[f"{k}_low"], r[f"{k}_high"]) for k in ("gain", "ece")),
                       *(judged(r, f"ece_less_{rival}") for rival in ("ft", "scaled"))]
        if r["reached"] else ["none", "", "", "", ""]
        for r in rows.to_dict("records")
    }  # fmt: skip


def judged(row: Mapping[Any, Any], name: str) -> str:
    """`−5.0 (−6.5 to −3.5), better`: a difference of ECE."""
    value, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if not np.isfinite(value):
        return formats.MISSING
    said = {True: "better", False: "worse", None: "open"}[beyond(low, high, 0.0, -1)]
    return f"{percent(value, low, high)}, {said}"


def size_at(row: Mapping[Any, Any]) -> str:
    """`3 %`, and `3 %, by test` where only the test score reaches the gain."""
    return formats.share(row["share"]) + ("" if row["reached_on"] == "validation" else f", by {row['reached_on']}")


def per_task(held: Held, main: float | None, name: str) -> list[str]:
    """One row a task: score, agreement, complement and size needed; calibration; and the same on other data."""
    rows = tested(held["scores"])
    localizer = rows["localizer"].fillna("")
    rows = at_size(rows[localizer.isin(("", MAIN_SEARCH, "movement"))], main)
    size = rows[rows["localizer"].eq(MAIN_SEARCH)]["share"].median()
    sizes, tuned = needed(held), less(held, "graft", "ft", "own", main)
    over_top = less(held, "graft", "graft_movement", "own", main)
    parts: tuple[list, list, list] = ([], [], [])
    for where, own in rows.groupby("where", sort=False):
        by = {
            method: own[own["method"].eq(method) & own["localizer"].fillna("").isin(("", search))]
            for method, search in PARTS.items()
        }
        name = str(where) + (" (F1)" if (own["metric"] == "f1").any() else "")
        first = [name, formats.count(int(own["n"].iloc[0])), *(cell(by[m]) for m in ("pretrained", "ft", "graft"))]
        over = over_top.get(str(where), "")
        if " to " in str(where):
            parts[2].append([*first, tuned.get(str(where), ""), cell(by["graft_movement"])])
            continue
        parts[0].append([*first, cell(by["complement"]), cell(by["graft"], "agreement"), over])
        eces = [cell(by[method], "ece") for method in ("ft", "ft_scaled", "graft")]
        parts[1].append([str(where), *eces, *sizes.get(str(where), [NO_GAIN, "", "", "", ""])])
    return _per_task(parts, formats.share(float(size)) if np.isfinite(size) else "main size")


PARTS = {
    "pretrained": "", "ft": "", "ft_scaled": "", "graft": MAIN_SEARCH, "complement": MAIN_SEARCH,
    "graft_movement": "movement",
}  # fmt: skip
NO_GAIN = "no gain"
SAID = (
    "Accuracy, or F1 where said, on test, %:",
    "ECE, %, at the main size, and at the size needed for 95 % of the gain: the smallest whose validation score has "
    "it (`by test`: whose test score has it); none: not even the largest; no gain: fine-tuning gained nothing beyond "
    "chance:",
    "Accuracy on other data, without further training; test examples that training has seen are left out:",
)


def _per_task(parts: tuple[list, list, list], at: str) -> list[str]:
    graft = f"graft, {at}"
    heads = (
        ("task", "n", "pre-trained", "fine-tuned", graft, "its complement", "agreement",
         "graft less top movement, points"),
        ("task", "fine-tuned", "temperature-scaled", graft, "size needed", "gain there, %", "ECE there",
         "less fine-tuned, points", "less temp.-scaled, points"),
        ("trained on, asked of", "n", "pre-trained", "fine-tuned", graft, "graft less fine-tuned, points",
         "top movement"),
    )  # fmt: skip
    made: list[str] = []
    for words, head, rows in zip(SAID, heads, parts, strict=True):
        made += [*([""] if made else []), words, "", *markdown(head, rows)] if rows else []
    return made


def recipes(held: Held, main: float | None, name: str) -> list[str]:
    """Figure 5: of each recipe its own model, what its graft gives back of its gain, and what the rest keeps."""
    rows = tested(held["scores"])
    made = []
    for (where, recipe), own in rows[rows["id_task"] == rows["task"]].groupby(["where", "recipe"], sort=False):
        own = at_size(own, main)
        tuned = own[own["method"].isin(("ft", "adamw", "adamw_l1"))]
        parts = [own[(own["method"] == m) & (own["localizer"] == s)] for m, s in SIDES]
        told = [cell(tuned), cell(parts[0]), cell(parts[0], "recovered"), cell(parts[1], "recovered"), cell(parts[2])]
        made.append([str(where), "SGD" if recipe in GIVEN else RECIPES.get(str(recipe), str(recipe)), *told])
    head = (
        "task", "recipe", "fine-tuned", "graft", "its share of the gain", "top movement's share of the gain",
        "complement of the graft",
    )  # fmt: skip
    return [*markdown(head, made), "", "Accuracy or F1, and shares of the recipe's own gain, on test, %."]


SIDES = (("graft", MAIN_SEARCH), ("graft_movement", "movement"), ("complement", MAIN_SEARCH))


def stages(held: Held, main: float | None, name: str) -> list[str]:
    """Accuracy of every task after every stage, by mode."""
    rows = own_metric(held["stages"])
    tasks = list(dict.fromkeys(rows.sort_values("stage", kind="stable")["stage_task"]))
    made = []
    for (mode, _stage), own in rows[rows["mode"] != "independent"].groupby(["mode", "stage"], sort=True):
        made.append([str(mode), str(own["stage_task"].iloc[0]), *_told(own, tasks)])
    alone = rows[rows["mode"] == "independent"]
    made += [["a model a task", "", *_told(alone, tasks)]] if len(alone) else []
    return [*markdown(("mode", "learned last", *tasks), made), "", "Accuracy or F1 on test, %, by task."]


def _told(rows: pd.DataFrame, tasks: Sequence[str]) -> list[str]:
    found = {r["task"]: percent(r["value"], r["low"], r["high"]) for r in rows.to_dict("records")}
    return [found.get(task, "") for task in tasks]
