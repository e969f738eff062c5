"""Render a study for docs/results.md as Markdown: for each experiment, the rows behind its claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.method_points import under_the_tuned_head
from skillviz.analysis.observations import PAIR_RECIPE
from skillviz.analysis.tables import label, without_variants
from skillviz.core.formats import (
    MISSING,
    by_chance,
    count,
    interval,
    markdown_table,
    number,
    percent,
    percent_estimate,
    share,
)
from skillviz.core.intervals import Interval, seeds_interval, wilson
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.metrics import metric_row
from skillviz.core.seeds_interval import mean_of_intervals
from skillviz.models.finetune.recipes import RETRAIN, SGD
from skillviz.plots.methods import method_style
from skillviz.show.table_words import RECIPE_WORDS
from skillviz.studies.paper.claims import at_main, beyond, main_share, of_task_metric
from skillviz.studies.paper.comparisons import GRAFTS
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.region_comparisons import SURE
from skillviz.studies.store import StudyFolder
from skillviz.tasks.readable_names import family

SEARCHED = tuple(row.name for row in LOCALIZERS.values() if row.is_search)
MAIN_SEARCH = GRAFTS[0]
PLAIN = ("", SGD, PAIR_RECIPE, RETRAIN, "bitfit", "lora")
"""Recipes that are clear from a method's name, or that need no name."""
KEYS = ["where", "method", "search", "training"]
TUNED = ("ft", "adamw", "adamw_l1")
DENSITY = "Times the average density (1 is chance), with 95% intervals over mask seeds{}."

Tables = Mapping[str, pd.DataFrame]
Make = Callable[[Tables, float | None, Experiment | None], list[str]]
"""A function that returns lines of Markdown from a study's tables, its main size as a share, and its experiment."""


def of_study(study: StudyFolder) -> list[str]:
    """Return the study's main table, or several; no lines if it has none of the tables shown here."""
    tables = {name: study.table(name) for name in study.tables()}
    row = EXPERIMENTS.get(study.record.experiment or "")
    shown = row.shown if row else "curves"
    first = [row.main] if row and not row.methods else ["scores"]
    makers = [*SHOWN.get(shown, ()), *((table, BY_TABLE[table]) for table in (*first, *BY_TABLE) if table in BY_TABLE)]
    for table, make in makers:
        if table in tables:
            return make(tables, main_share(study.record.scale), row)
    return []


def _at_most_by_chance(rows: pd.DataFrame) -> str:
    """Return `at most 1.2% (95%: ...) by chance`: the largest level of these rows, with its range."""
    known = rows.dropna(subset=["chance"])
    if known.empty:
        return "chance level unknown, because the regions are not stored"
    highest = known.loc[known["chance"].idxmax()]
    return f"at most {by_chance(*(highest[name] for name in ('chance', 'chance_low', 'chance_high')))} by chance"


def stability(study: StudyFolder) -> list[str]:
    """A line per search and source of randomness: the overlap of two regions of a task, least stable task first."""
    if "stability" not in study.tables():
        return []
    lines = []
    for (source, localizer, _), rows in study.table("stability").groupby(["source", "localizer", "recipe"], sort=False):
        ordered = rows.sort_values("iou")
        ends = ordered if len(ordered) < 3 else ordered.iloc[[0, -1]]
        sizes = {share(float(one)) for one in rows["share"]}
        is_unique = rows["task"].is_unique
        values = " to ".join(
            f"{percent_estimate(row['iou'], row['low'], row['high'])} "
            f"({row['task'] if is_unique else row['task'] + ' at ' + share(float(row['share']))})"
            for row in ends.to_dict("records")
        )
        luck = "from bootstrap samples of the training data" if source == "bootstrap" else f"with different {source}"
        at = f" at {sizes.pop()}" if len(sizes) == 1 else ""
        lines.append(f"- IoU of two regions of {localizer}{at} {luck}, %: {values}; {_at_most_by_chance(rows)}.")
    return lines


def estimate(row: Mapping[Any, Any], column: str = "value") -> str:
    """Return `87.0 (85.1–88.9)`: a column and its ends, in percent without the sign."""
    parts = [name if column == "value" else f"{column}_{name}" for name in ("low", "high", "debiased")]
    return percent_estimate(row[column], *(row.get(part) for part in parts))


def crossed(
    rows: pd.DataFrame, by: str | list[str], column: str, columns: Sequence[Any], cell: Callable[[dict[Any, Any]], str]
) -> list[tuple[Any, list[str]]]:
    """Return one line per group of `by`, in the order of the rows: its key, and a cell for each value of `column`."""
    lines = []
    for key, group in rows.groupby(by, sort=False, dropna=False):
        cells = {row[column]: cell(row) for row in group.to_dict("records")}
        lines.append((key, [cells.get(value, "") for value in columns]))
    return lines


def score(rows: pd.DataFrame, metric: str = "") -> str:
    """Return a metric's mean with its interval, from the first row; by default the task's own metric."""
    metric = metric or ("f1" if (rows["metric"] == "f1").any() else "accuracy")
    of_metric = rows[rows["metric"] == metric]
    if of_metric.empty:
        return ""
    row = of_metric.iloc[0]
    return percent_estimate(row["mean"], row["low"], row["high"], row["debiased"])


def tested(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the test rows with `where`: the task, or "trained on to scored on"."""
    rows = under_the_tuned_head(scores[scores["split"] == "test"])
    settings = [label(*pair) for pair in zip(rows["setting"], rows["readout"], strict=True)]
    where = [
        (task if id_task == task else f"{id_task} to {task}") + ("" if setting == "all" else f" ({setting})")
        for id_task, task, setting in zip(rows["id_task"], rows["task"], settings, strict=True)
    ]
    search = [label(*pair) for pair in zip(rows["localizer"], rows["search_variant"], strict=True)]
    training = [label(*pair) for pair in zip(rows["recipe"], rows["variant"], strict=True)]
    return rows.assign(where=where, search=search, training=training)


def at_size(rows: pd.DataFrame, main: float | None) -> pd.DataFrame:
    """Return rows without a size, and rows of the size nearest to the main one."""
    return pd.concat([rows[rows["share"].isna()], at_main(rows[rows["share"].notna()], main)])


def method_name(method: str, localizer: object, recipe: str) -> str:
    """Return `graft, stagewise`; with the recipe if it is not plain SGD."""
    name = method_style(method).title
    name += f", {localizer}" if isinstance(localizer, str) and localizer and method == "graft" else ""
    is_plain = recipe in PLAIN or method == recipe.replace("-", "_")
    return name if is_plain else f"{name} ({RECIPE_WORDS.get(recipe, recipe)})"


def methods(tables: Tables, main: float | None, row: Experiment | None) -> list[str]:
    """Return the experiment's methods at the main size, one per column: the task's metric and ECE with intervals."""
    wanted = (row and row.methods) or tuple(tables["scores"]["method"].unique())
    elsewhere = row is not None and row.on_other_data
    rows = tested(tables["scores"])
    rows = at_size(rows[rows["method"].isin(wanted)], main)
    rows = rows[rows["id_task"] != rows["task"]] if elsewhere and (rows["id_task"] != rows["task"]).any() else rows
    cells: dict[str, dict[str, str]] = {}
    columns: dict[str, int] = {}
    for (where, method, localizer, recipe), group in rows.groupby(KEYS, sort=False, dropna=False):
        column = method_name(str(method), localizer, "" if method == "pretrained" else str(recipe))
        column += f", {share(float(group['share'].iloc[0]))}" if group["share"].notna().any() else ""
        columns.setdefault(column, wanted.index(method))
        line = cells.setdefault(f"{where}, n = {count(int(group['n'].iloc[0]))}", {})
        line.setdefault(column, f"{score(group)}; {score(group, 'ece') or MISSING}")
    heads = sorted(columns, key=columns.__getitem__)
    lines = [[where, *(line.get(column, "") for column in heads)] for where, line in sorted(cells.items())]
    return [*markdown_table(("task", *heads), lines), "", "Accuracy or F1; ECE, on test, %."]


def curves(tables: Tables, main: float | None, row: Experiment | None) -> list[str]:
    """Return accuracy or F1 of every kind of region by its size, beside the whole models."""
    rows = tested(tables["scores"])
    rows = rows[~rows["method"].isin(("complement", "ft_scaled"))]
    rows = rows if row is not None and row.on_other_data else rows[rows["id_task"] == rows["task"]]
    whole = rows[rows["share"].isna()]
    rows = rows[rows["share"].notna()]
    is_outcome = rows["localizer"].astype(str).str.partition(",")[0] == "learned"
    sizes = {f"{one:.2g}": one for one in sorted(rows[~is_outcome]["share"])}
    ends = {
        where: [score(group[group["method"].isin(wanted)]) for wanted in (("pretrained",), TUNED)]
        for where, group in whole.groupby("where")
    }
    lines = []
    for (where, method, localizer, recipe), group in rows.groupby(KEYS, sort=False, dropna=False):
        region = method_name(str(method), localizer, str(recipe))
        at = group["share"].map("{:.2g}".format)
        values = [score(group[at == size]) for size in sizes]
        if is_outcome[group.index[0]]:
            values = [
                f"at {share(float(group['share'].iloc[0]))}, an outcome: {score(group)}",
                *[""] * (len(sizes) - 1),
            ]
        region += ", searched" if method == "graft_biases" and localizer != "biases" else ""
        pretrained, tuned = ends.get(where, ["", ""])
        lines.append([str(where), region, pretrained, *values, tuned])
    head = ("task", "region", "pre-trained", *(share(one) for one in sizes.values()), "fine-tuned")
    return [*markdown_table(head, sorted(lines, key=lambda line: line[0])), "", "Accuracy or F1 on test, %."]


def differences(tables: Tables, a: str, b: str, main: float | None) -> dict[str, str]:
    """Return a less b of the main search at the main size, in points, by task or by "trained on to scored on"."""
    rows = tables.get("differences", pd.DataFrame())
    if rows.empty:
        return {}
    rows = rows[(rows["a"] == a) & (rows["b"] == b) & rows["localizer"].eq(MAIN_SEARCH) & rows["setting"].eq("all")]
    rows = without_variants(rows, "readout")
    return {
        (row["task"] if row["id_task"] == row["task"] else f"{row['id_task']} to {row['task']}"): estimate(row)
        for row in at_main(of_task_metric(rows), main).to_dict("records")
    }


def needed(tables: Tables) -> dict[str, list[str]]:
    """Return, by task, the smallest region of the main search with 95% of the gain, its test gain, and its ECE."""
    rows = tables.get("recovered", pd.DataFrame())
    if rows.empty:
        return {}
    rows = rows[(rows["localizer"] == MAIN_SEARCH) & np.isclose(rows["gain_share"], 0.95)]
    return {
        row["id_task"]: [
            share(row["share"]) + ("" if row["reached_on"] == "validation" else f", by {row['reached_on']}"),
            estimate(row, "gain"), estimate(row, "ece"), *(_ece_less(row, rival) for rival in ("ft", "scaled")),
        ]
        if row["reached"] else ["none", "", "", "", ""]
        for row in rows.to_dict("records")
    }  # fmt: skip


def _ece_less(row: Mapping[Any, Any], rival: str) -> str:
    """Return `−5.0 (−6.5 to −3.5), better`: a difference of ECE."""
    name = f"ece_less_{rival}"
    if not np.isfinite(row[name]):
        return MISSING
    verdict = metric_row("ece").verdict(row[f"{name}_low"], row[f"{name}_high"])
    return f"{estimate(row, name)}, {verdict}"


def per_task(tables: Tables, main: float | None, row: Experiment | None) -> list[str]:
    """One row per task: score, agreement, complement and size needed; calibration; and the same on other data."""
    rows = tested(tables["scores"])
    localizer = rows["localizer"].fillna("")
    rows = at_size(rows[localizer.isin(("", MAIN_SEARCH, "movement"))], main)
    size = float(rows[rows["localizer"].eq(MAIN_SEARCH)]["share"].median())
    sizes, over_tuned = needed(tables), differences(tables, "graft", "ft", main)
    over_movement = differences(tables, "graft", "graft_movement", main)
    scores: list[list[str]] = []
    calibration: list[list[str]] = []
    elsewhere: list[list[str]] = []
    for where, group in rows.groupby("where", sort=False):
        by = {
            method: group[group["method"].eq(method) & group["localizer"].fillna("").isin(("", search))]
            for method, search in PARTS.items()
        }
        task = str(where) + (" (F1)" if (group["metric"] == "f1").any() else "")
        first = [task, count(int(group["n"].iloc[0])), *(score(by[m]) for m in ("pretrained", "ft", "graft"))]
        if " to " in str(where):
            elsewhere.append([*first, over_tuned.get(str(where), ""), score(by["graft_movement"])])
            continue
        over = over_movement.get(str(where), "")
        scores.append([*first, score(by["complement"]), score(by["graft"], "agreement"), over])
        eces = [score(by[method], "ece") for method in ("ft", "ft_scaled", "graft")]
        calibration.append([str(where), *eces, *sizes.get(str(where), ["no gain", "", "", "", ""])])
    graft = f"graft, {share(size) if np.isfinite(size) else 'main size'}"
    parts = (
        (SCORES, ("task", "n", "pre-trained", "fine-tuned", graft, "its complement", "agreement",
                  "graft − top movement, points"), scores),
        (CALIBRATION, ("task", "fine-tuned", "temperature-scaled", graft, "size needed", "gain there, %", "ECE there",
                       "− fine-tuned, points", "− temp.-scaled, points"), calibration),
        (ELSEWHERE, ("trained on, scored on", "n", "pre-trained", "fine-tuned", graft,
                     "graft − fine-tuned, points", "top movement"), elsewhere),
    )  # fmt: skip
    lines: list[str] = []
    for words, head, cells in parts:
        lines += [*([""] if lines else []), words, "", *markdown_table(head, cells)] if cells else []
    return lines


PARTS = {
    "pretrained": "", "ft": "", "ft_scaled": "", "graft": MAIN_SEARCH, "complement": MAIN_SEARCH,
    "graft_movement": "movement",
}  # fmt: skip
SCORES = "Accuracy, or F1 where noted, on test, %:"
CALIBRATION = (
    "ECE, %, at the main size and at the size needed for 95% of the gain. That is the smallest size whose validation "
    "score has it (`by test`: whose test score has it). `none`: not even the largest does. `no gain`: "
    "fine-tuning gained nothing beyond chance."
)
ELSEWHERE = "Accuracy on other data, without further training. Test examples seen in training are left out."


def recipes(tables: Tables, main: float | None, row: Experiment | None) -> list[str]:
    """Return each recipe's model, the share of the gain that its graft recovers, and the complement's score."""
    rows = tested(tables["scores"])
    lines = []
    for (where, recipe), group in rows[rows["id_task"] == rows["task"]].groupby(["where", "recipe"], sort=False):
        group = at_size(group, main)
        graft, movement, complement = (
            group[(group["method"] == method) & (group["localizer"] == localizer)]
            for method, localizer in (("graft", MAIN_SEARCH), ("graft_movement", "movement"),
                                      ("complement", MAIN_SEARCH))
        )  # fmt: skip
        tuned = group[group["method"].isin(TUNED)]
        values = [score(tuned), score(graft), score(graft, "recovered"), score(movement, "recovered")]
        title = "SGD" if recipe in PLAIN else RECIPE_WORDS.get(str(recipe), str(recipe))
        lines.append([str(where), title, *values, score(complement)])
    head = (
        "task", "recipe", "fine-tuned", "graft", "share of the gain, graft", "share of the gain, top movement",
        "complement of the graft",
    )  # fmt: skip
    return [*markdown_table(head, lines), "", "Accuracy or F1, and shares of the recipe's own gain, on test, %."]


def stages(tables: Tables, main: float | None, row: Experiment | None) -> list[str]:
    """Return the accuracy of every task after every stage, by mode."""
    rows = of_task_metric(tables["stages"]).sort_values(["mode", "stage"], kind="stable")
    tasks = list(dict.fromkeys(rows.sort_values("stage", kind="stable")["stage_task"]))
    in_turn, alone = rows[rows["mode"] != "independent"], rows[rows["mode"] == "independent"]
    keys = ["mode", "stage", "stage_task"]
    lines = [[mode, last, *cells] for (mode, _, last), cells in crossed(in_turn, keys, "task", tasks, estimate)]
    lines += [["one model per task", "", *cells] for _, cells in crossed(alone, "mode", "task", tasks, estimate)]
    return [*markdown_table(("mode", "learned last", *tasks), lines), "", "Accuracy or F1 on test, %, by task."]


def overlap_and_gain(tables: Tables, main: float | None, row: Experiment | None) -> list[str]:
    """Return the overlap of every two regions, and the gain of regions and unions on every task."""
    shared = overlap(tables, main, row) if "overlap" in tables else []
    return [*shared, *([""] if shared else []), *gain(tables, main, row)]


def overlap(tables: Tables, main: float | None, row: Experiment | None) -> list[str]:
    """Return the overlap of every two regions as a matrix."""
    rows = tables["overlap"]
    rows = rows[rows["kind"] == ("overlap" if (rows["kind"] == "overlap").any() else "iou")]
    tasks = list(dict.fromkeys(rows["row_task"]))

    def cell(row: Mapping[Any, Any]) -> str:
        words = estimate(row) if row["column_task"] != row["row_task"] else ""
        return f"**{words}**" if row["relation"] == "related" and words else words

    lines = [[row, *cells] for row, cells in crossed(rows, "row_task", "column_task", tasks, cell)]
    caption = (
        f"Share of the column's region that the row's region also has, %, over mask seeds; {_at_most_by_chance(rows)}."
    )
    return [*markdown_table(("region of", *tasks), lines), "", f"{caption} Bold: tasks of one family."]


def gain(tables: Tables, main: float | None, row: Experiment | None) -> list[str]:
    """Return the gain of single regions, unions of families and the union of all, on every task."""
    rows = tables["gain"]
    tasks = list(dict.fromkeys(rows["task"]))
    groups = rows["region_tasks"]
    most = groups.map(len).max()
    rows = rows[[len({family(task) for task in group}) == 1 or len(group) == most for group in groups]]
    keys = ["region", "purified"]
    lines = [
        [f"{region}, purified" if purified else str(region), *cells]
        for (region, purified), cells in crossed(rows, keys, "task", tasks, estimate)
    ]
    caption = "Relative gain on each task, %, over test examples and mask seeds. The study has the other unions."
    return [*markdown_table(("region of", *tasks), lines), "", caption]


def layers(tables: Tables, main: float | None, row: Experiment | None) -> list[str]:
    """Return the density of the main search's regions in each layer."""
    rows = _of_search(tables["composition"]).dropna(subset=["layer"])
    rows = rows.assign(layer=["layer " + str(int(layer) + 1) for layer in rows["layer"]])
    return [*_densities(rows, "layer"), "", DENSITY.format("; layers counted from the input")]


def kinds(tables: Tables, main: float | None, row: Experiment | None) -> list[str]:
    """Return the density of the main search's regions in each kind of module."""
    return [*_densities(_of_search(tables["composition"]), "kind"), "", DENSITY.format("")]


def _of_search(rows: pd.DataFrame) -> pd.DataFrame:
    is_main = (rows["localizer"] == MAIN_SEARCH) & (rows["variant"] == "")
    return rows[is_main] if is_main.any() else rows


def _densities(rows: pd.DataFrame, by: str) -> list[str]:
    ratios: dict[str, dict[Any, Interval]] = {}
    for task, group in rows.groupby("task", sort=True):
        part = group.groupby(["seed", by])[["selected", "total"]].sum()
        whole = group.groupby("seed")[["selected", "total"]].sum()
        ratio = ((part["selected"] / part["total"]) / (whole["selected"] / whole["total"])).unstack(by)
        ratios[str(task)] = {one: Interval(*seeds_interval(list(ratio[one]))[:3]) for one in ratio}
    lines = []
    for one in dict.fromkeys(rows[by]):
        order = sorted(ratios, key=lambda task: ratios[task][one].value)
        mean = np.mean([ratios[task][one].value for task in order])
        more = sum(beyond(ratios[task][one].low, ratios[task][one].high, 1.0) is True for task in order)
        densest = [task for task in ratios if max(ratios[task], key=lambda part: ratios[task][part].value) == one]
        ends = [f"{_times(ratios[task][one])}, {task}" for task in (order[0], order[-1])]
        lines.append([str(one), number(mean, 2), *ends, f"{more} of {len(order)}", ", ".join(densest)])
    return markdown_table((by, "mean over tasks", "lowest", "highest", "tasks with more than 1", "densest here"), lines)


def _times(ratio: Interval) -> str:
    ends = f" ({interval(ratio.low, ratio.high, 2)})" if np.isfinite(ratio.low) else ""
    return number(ratio.value, 2) + ends


def histogram(tables: Tables, main: float | None, row: Experiment | None) -> list[str]:
    """Return the share of test examples with a top probability near 1."""
    lines = []
    every = tables["histogram"]
    for (task, state, size), rows in every.groupby(["task", "state", "share"], sort=True, dropna=False):
        sure, n = float(rows[rows["low_edge"] >= SURE - 1e-9]["count"].sum()), max(float(rows["n"].max()), 1.0)
        model = "fine-tuned" if state == "finetuned" else f"graft of {share(size)}"
        lines.append([str(task), model, percent_estimate(sure / n, *wilson(sure, n)), count(int(n))])
    return markdown_table(("task", "model", f"top probability above {percent(SURE, 0)}, % of examples", "n"), lines)


def checkpoints(tables: Tables, main: float | None, row: Experiment | None) -> list[str]:
    """Return a line per checkpoint: model and graft, calibration, size needed, lead over top movement and overlap."""
    every, lines = tables["checkpoints"], []
    search = next(iter(every.loc[every["what"] == "lead", "localizer"]), "stagewise")
    for (task, step), rows in every[every["localizer"].isin(("", search))].groupby(["id_task", "step"]):
        of = {(one["what"], one["metric"] == "ece"): one for one in rows.to_dict("records")}
        points = [of.get((what, False)) for what in ("finetuned", "grafted", "gap", "lead")]
        cells = [percent_estimate(one["value"], one["low"], one["high"]) if one else "" for one in points]
        errors = [of.get((what, True)) for what in ("finetuned", "grafted")]
        cells += [percent_estimate(one["debiased"], one["low"], one["high"]) if one else "" for one in errors]
        needed, shared = of.get(("needed", False)), of.get(("shared", False))
        size = "none of these" if needed and pd.isna(needed["value"]) else share(needed["value"]) if needed else ""
        lines.append([str(task), count(int(step)), *cells, size, percent(shared["value"], 0) if shared else ""])
    head = (
        "task", "step", "fine-tuned", "graft", "graft − fine-tuned, points", "graft − top movement, points",
        "ECE (debiased)", "graft's ECE (debiased)", "size for 95% of the gain", "shared with the last region",
    )  # fmt: skip
    return markdown_table(head, lines)


def sensitivity(tables: Tables, main: float | None, row: Experiment | None) -> list[str]:
    """The searches' constants against size and the task's metric, over mask seeds; numbers of steps as columns."""
    rows = of_task_metric(tables["sensitivity"])
    steps = sorted(rows["steps"].dropna().unique())
    lines = []
    for key, group in rows.groupby(["task", "localizer", "lr", "bias", "batch_size"], sort=True, dropna=False):
        task, localizer, *constants = key
        values = ["" if pd.isna(value) else f"{value:g}" for value in constants]
        lines.append(
            [str(task), str(localizer), *values, *(_over_seeds(group[group["steps"] == one]) for one in steps)]
        )
    head = ("task", "search", "rate", "bias", "batch", *(f"{one:g} steps" for one in steps))
    caption = "Size of the region: accuracy or F1 on test, %, over mask seeds."
    return [*markdown_table(head, lines), "", caption]


def _over_seeds(rows: pd.DataFrame) -> str:
    if rows.empty:
        return ""
    mean = mean_of_intervals(rows["value"], rows["low"], rows["high"])
    return f"{share(float(rows['share'].mean()))}: {percent_estimate(mean.value, mean.low, mean.high)}"


SHOWN: Mapping[str, Sequence[tuple[str, Make]]] = {
    "per task": [("scores", per_task)],
    "curves": [("scores", curves)],
    "recipes": [("scores", recipes)],
    "overlap and gain": [("gain", overlap_and_gain), ("overlap", overlap)],
    "kinds": [("composition", kinds)],
}
"""The tables that may represent an experiment in place of its main table, and the functions that render them."""
BY_TABLE: Mapping[str, Make] = {
    "scores": methods, "stages": stages, "overlap": overlap, "gain": gain, "composition": layers,
    "histogram": histogram, "sensitivity": sensitivity, "checkpoints": checkpoints,
}  # fmt: skip
"""The tables of other studies: the first one that a study has is shown."""
