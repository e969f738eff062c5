"""What docs/results.md shows of each study: which table by experiment, and the tables of regions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from docs.results_tables import (
    MAIN_SEARCH,
    METHODS,
    Held,
    curves,
    markdown,
    methods,
    per_task,
    percent,
    recipes,
    stages,
)
from skillviz.core import formats
from skillviz.core.intervals import Interval, seeds_interval, wilson
from skillviz.studies.comparing_regions import SURE
from skillviz.studies.family import family
from skillviz.studies.paper.verdicts import beyond, main_share, own_metric
from skillviz.studies.store import StudyFolder

Make = Callable[[Held, float | None, str], list[str]]
FAIR = "Times the fair share (1 is what chance gives), with 95 % intervals over mask seeds{}."


def of_study(study: StudyFolder) -> list[str]:
    """The study's main table, or several; no line where it has none that is told."""
    held = {name: study.table(name) for name in study.tables()}
    name = study.record.experiment or "other"
    for table, make in (*BY_EXPERIMENT.get(name, ()), *BY_TABLE):
        if table in held:
            return make(held, main_share(study.record.scale), name)
    return []


def steady(study: StudyFolder) -> list[str]:
    """A line a search and source of luck: how much two regions of a task share, from the least steady task on."""
    if "stability" not in study.tables():
        return []
    made = []
    for (source, localizer, _), own in study.table("stability").groupby(["source", "localizer", "recipe"], sort=False):
        ordered = own.sort_values("iou")
        ends = ordered if len(ordered) < 3 else ordered.iloc[[0, -1]]
        sizes = {formats.share(float(share)) for share in own["share"]}
        name = (lambda row: row["task"]) if len(own["task"]) == len(set(own["task"])) else _at
        told = " to ".join(f"{percent(r['iou'], r['low'], r['high'])} ({name(r)})" for r in ends.to_dict("records"))
        luck = "from bootstrap samples of the training data" if source == "bootstrap" else f"with different {source}"
        at = f" at {sizes.pop()}" if len(sizes) == 1 else ""
        by_chance = formats.share(float(own["chance"].max()))
        made.append(f"- Two regions of {localizer}{at} {luck}: IoU, %, {told}; by chance at most {by_chance}.")
    return made


def _at(row: Mapping[Any, Any]) -> str:
    return f"{row['task']} at {formats.share(float(row['share']))}"


def several(held: Held, main: float | None, name: str) -> list[str]:
    """Figure 8: what every two regions share, and what regions and unions give every task."""
    shared = overlap(held, main, name) if "overlap" in held else []
    return [*shared, *([""] if shared else []), *gain(held, main, name)]


def overlap(held: Held, main: float | None, name: str) -> list[str]:
    """What every two regions share, as a matrix."""
    rows = held["overlap"]
    rows = rows[rows["kind"] == ("overlap" if (rows["kind"] == "overlap").any() else "iou")]
    tasks = list(dict.fromkeys(rows["row"]))
    made = []
    for row, own in rows.groupby("row", sort=False):
        found = {r["column"]: _kin(r) for r in own.to_dict("records") if r["column"] != row}
        made.append([str(row), *(found.get(task, "") for task in tasks)])
    said = f"Share of the column's region that the row's has too, %, over mask seeds; by chance {_chance(rows)}."
    return [*markdown(("region of", *tasks), made), "", f"{said} Bold: tasks of one family."]


def _kin(row: Mapping[Any, Any]) -> str:
    told = percent(row["value"], row["low"], row["high"])
    return f"**{told}**" if row["relation"] == "related" else told


def _chance(rows: pd.DataFrame) -> str:
    return formats.share(float(rows["chance"].max()))


def gain(held: Held, main: float | None, name: str) -> list[str]:
    """What regions, the unions of families and of all give every task."""
    rows = held["gain"]
    tasks = list(dict.fromkeys(rows["task"]))
    every = rows["of"].str.count("[+]").max()
    made = []
    for (region, of, purified), own in rows.groupby(["region", "of", "purified"], sort=False):
        group = str(of).split("+")
        if not (len({family(task) for task in group}) == 1 or len(group) == every + 1):
            continue
        found = {r["task"]: percent(r["value"], r["low"], r["high"]) for r in own.to_dict("records")}
        made.append([str(region) + (", purified" if purified else ""), *(found.get(task, "") for task in tasks)])
    said = "Relative gain on each task, %, over test examples and mask seeds; the other unions are in the study."
    return [*markdown(("region of", *tasks), made), "", said]


def layers(held: Held, main: float | None, name: str) -> list[str]:
    """How dense the main search's regions are in each layer; below them top movement where the study has it."""
    rows = _of_search(held["makeup"]).dropna(subset=["layer"])
    rows = rows.assign(layer=["layer " + str(int(number) + 1) for number in rows["layer"]])
    return [*_dense(rows, "layer"), "", FAIR.format("; layers counted from the input")]


def kinds(held: Held, main: float | None, name: str) -> list[str]:
    """How dense the main search's regions are in each kind of module."""
    return [*_dense(_of_search(held["makeup"]), "kind"), "", FAIR.format("")]


def _of_search(rows: pd.DataFrame) -> pd.DataFrame:
    is_main = rows["localizer"] == MAIN_SEARCH
    return rows[is_main] if is_main.any() else rows


def _dense(rows: pd.DataFrame, by: str) -> list[str]:
    found = {}
    for task, own in rows.groupby("task", sort=True):
        part = own.groupby(["seed", by])[["selected", "total"]].sum()
        whole = own.groupby("seed")[["selected", "total"]].sum()
        ratio = ((part["selected"] / part["total"]) / (whole["selected"] / whole["total"])).unstack(by)
        found[str(task)] = {one: seeds_interval(list(ratio[one])) for one in ratio}
    made = []
    for one in dict.fromkeys(rows[by]):
        order = sorted(found, key=lambda task: found[task][one].value)
        mean = np.mean([found[task][one].value for task in order])
        more = sum(beyond(found[task][one].low, found[task][one].high, 1.0) is True for task in order)
        most = [task for task in found if max(found[task], key=lambda part: found[task][part].value) == one]
        ends = [f"{_times(found[task][one])}, {task}" for task in (order[0], order[-1])]
        made.append([str(one), formats.number(mean, 2), *ends, f"{more} of {len(order)}", ", ".join(most)])
    return markdown((by, "mean over tasks", "lowest", "highest", "tasks with more than 1", "densest here"), made)


def _times(over: Interval) -> str:
    ends = f" ({formats.interval(over.low, over.high, 2)})" if np.isfinite(over.low) else ""
    return formats.number(over.value, 2) + ends


def histogram(held: Held, main: float | None, name: str) -> list[str]:
    """The share of test examples with a top probability near 1."""
    made = []
    for (task, state), own in held["histogram"].groupby(["task", "state"], sort=True):
        sure, n = float(own[own["low_edge"] >= SURE - 1e-9]["count"].sum()), max(float(own["n"].max()), 1.0)
        told = "fine-tuned" if state == "finetuned" else str(state).replace("grafted", "graft of")
        made.append([str(task), told, percent(sure / n, *wilson(sure, n)), formats.count(int(n))])
    return markdown(("task", "model", f"top probability above {formats.percent(SURE, 0)}, % of examples", "n"), made)


def sensitivity(held: Held, main: float | None, name: str) -> list[str]:
    """The searches' constants against size and the task's metric, over mask seeds; numbers of steps as columns."""
    rows = own_metric(held["sensitivity"])
    steps = sorted(rows["steps"].dropna().unique())
    made = []
    keys = ["task", "localizer", "lr", "bias", "batch_size"]
    for key, own in rows.groupby(keys, sort=True, dropna=False):
        task, localizer, *constants = key
        told = ["" if pd.isna(value) else f"{value:g}" for value in constants]
        made.append([str(task), str(localizer), *told, *(_tried(own[own["steps"] == one]) for one in steps)])
    head = ("task", "search", "rate", "bias", "batch", *(f"{one:g} steps" for one in steps))
    return [
        *markdown(head, made),
        "",
        "Size that came out or was asked for: accuracy or F1 on test, %, over mask seeds.",
    ]


def _tried(rows: pd.DataFrame) -> str:
    if rows.empty:
        return ""
    over = seeds_interval(list(rows["value"]))
    return f"{formats.share(float(rows['share'].mean()))}: {percent(over.value, over.low, over.high)}"


BY_EXPERIMENT: dict[str, tuple[tuple[str, Make], ...]] = {
    **{name: (("scores", methods),) for name in METHODS},
    "table2": (("scores", per_task),),
    "table4": (("stages", stages),),
    **{name: (("scores", curves),) for name in ("figure2", "figure4", "figure7", "other")},
    "figure5": (("scores", recipes),),
    "figure6": (("histogram", histogram),),
    "figure8": (("gain", several), ("overlap", overlap)),
    "figure9": (("makeup", layers),),
    "figure10": (("makeup", kinds),),
    "sensitivity": (("sensitivity", sensitivity),),
}
BY_TABLE: tuple[tuple[str, Make], ...] = (
    ("scores", methods), ("stages", stages), ("overlap", overlap), ("gain", gain), ("makeup", layers),
    ("histogram", histogram), ("sensitivity", sensitivity),
)  # fmt: skip
"""What a study of one's own is told by: its first table of these."""
