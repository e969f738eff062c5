"""A study's tables as Markdown, for docs/results.md: one function a table, and the three headline claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from skillviz.plots.methods import method_style
from skillviz.studies.comparing_regions import SURE
from skillviz.studies.store import StudyFolder
from skillviz.studies.verdicts import at_main, beyond, main_share, own_metric
from skillviz.ui import text

SEARCHED = ("stagewise", "learned", "learned-ranked", "frank-wolfe", "linearized")
HEADS = ("task", "method", "size", "accuracy or F1, %", "ECE, %", "seeds", "n")
MOST = 40  # rows of a table on the page; all of it is in the study


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table; one line where there are no rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return ["No row."]
    cut = [f"({len(lines) - MOST} more rows are in the study.)"] if len(lines) > MOST else []
    return [f"| {' | '.join(head)} |", "| --- " * len(head) + "|", *lines[:MOST], *([""] if cut else []), *cut]


def percent(value: float, low: float = np.nan, high: float = np.nan) -> str:
    """`87.0 (85.1–88.9)`: shares in percent, without the sign."""
    if not np.isfinite(value):
        return text.MISSING
    ends = f" ({text.percent_interval(low, high)})" if np.isfinite(low) and np.isfinite(high) else ""
    return f"{text.number(100 * value, 1)}{ends}"


def scores(table: pd.DataFrame, main: float | None) -> list[str]:
    """Every method at the study's main size, on test: the task's metric and ECE with intervals."""
    rows = table[(table["split"] == "test") & (table["method"] != "complement")]
    sized = rows[rows["share"].notna()]
    rows = pd.concat([rows[rows["share"].isna()], at_main(sized, main)])
    made = []
    keys = ["id_task", "task", "setting", "method", "localizer", "recipe"]
    for (id_task, task, setting, method, localizer, recipe), own in rows.groupby(keys, sort=True):
        where = task if id_task == task else f"{id_task} to {task}"
        where += "" if setting == "all" else f" ({setting})"
        name = method_style(str(method)).title + (f", {localizer}" if localizer and method == "graft" else "")
        name += f" ({recipe})" if localizer and recipe not in ("sgd", "given", "graft-retrain") else ""
        size = text.share(float(own["share"].iloc[0])) if own["share"].notna().any() else ""
        first = own.iloc[0]
        told = [_estimate(own, "f1" if (own["metric"] == "f1").any() else "accuracy"), _estimate(own, "ece")]
        made.append([where, name, size, *told, str(int(first["seeds"])), text.count(int(first["n"]))])
    return [*markdown(HEADS, made), "", OVER]


OVER = (
    "Means over seeds; in brackets 95 % intervals over test examples and seeds together, over seeds alone where a size "
    "has no stored predictions."
)


def _estimate(rows: pd.DataFrame, metric: str) -> str:
    own = rows[rows["metric"] == metric]
    if own.empty:
        return text.MISSING
    row = own.iloc[0]
    pooled = np.isfinite(row["pooled_low"])
    ends = (row["pooled_low"], row["pooled_high"]) if pooled else (row["low"], row["high"])
    return percent(row["mean"], *ends)


def stages(table: pd.DataFrame, main: float | None) -> list[str]:
    """Accuracy of every task after every stage, by mode."""
    rows = own_metric(table)
    made = [
        [r["mode"], str(r["stage"]), r["stage_task"], r["task"], percent(r["value"], r["low"], r["high"])]
        for r in rows.sort_values(["mode", "stage"], kind="stable").to_dict("records")
    ]
    return markdown(("mode", "stage", "learned last", "asked of", "accuracy or F1, %"), made)


def overlap(table: pd.DataFrame, main: float | None) -> list[str]:
    """What every two regions share."""
    rows = table[(table["kind"] == "iou") | (table["row"] != table["column"])]
    made = [
        [
            r["row"],
            r["column"],
            r["kind"],
            percent(r["value"], r["low"], r["high"]),
            percent(r["chance"]),
            r["relation"],
        ]
        for r in rows.to_dict("records")
        if r["kind"] == ("overlap" if (rows["kind"] == "overlap").any() else "iou")
    ]
    return markdown(("row", "column", "kind", "share, %", "by chance, %", "tasks"), made)


def gain(table: pd.DataFrame, main: float | None) -> list[str]:
    """What regions and unions give every task."""
    made = [
        [r["region"] + (", purified" if r["purified"] else ""), r["task"], percent(r["value"], r["low"], r["high"])]
        for r in table.to_dict("records")
    ]
    return markdown(("region of", "on", "relative gain, %"), made)


def makeup(table: pd.DataFrame, main: float | None) -> list[str]:
    """How dense regions are in each layer and module kind, mean over seeds: times the fair share."""
    rows = table[table["localizer"].isin(SEARCHED[:1])] if (table["localizer"] == SEARCHED[0]).any() else table
    layers = rows.dropna(subset=["layer"])
    layers = layers.assign(layer=["layer " + str(int(number) + 1) for number in layers["layer"]])
    said = "Times the fair share, mean over mask seeds; layers counted from the input."
    return [*_dense(layers, "layer"), "", *_dense(rows, "kind"), "", said]


def _dense(rows: pd.DataFrame, by: str) -> list[str]:
    grouped = rows.groupby(["task", "seed", by], sort=False)[["selected", "total"]].sum()
    whole = rows.groupby(["task", "seed"])[["selected", "total"]].sum()
    density = grouped["selected"] / grouped["total"]
    ratio = density / (whole["selected"] / whole["total"])
    mean = ratio.groupby(level=["task", by]).mean().unstack(by)[list(dict.fromkeys(rows[by]))]
    values = zip(mean.index, mean.to_numpy(), strict=True)
    lines = [[str(task), *(text.number(value, 2) for value in row)] for task, row in values]
    return markdown(("task", *map(str, mean.columns)), lines)


def histogram(table: pd.DataFrame, main: float | None) -> list[str]:
    """The share of test examples with a top probability near 1."""
    made = []
    for (task, state), own in table.groupby(["task", "state"], sort=True):
        sure = own[own["low_edge"] >= SURE - 1e-9]["count"].sum() / max(float(own["n"].max()), 1.0)
        name = "fine-tuned" if state == "finetuned" else str(state).replace("grafted", "graft of")
        made.append([str(task), name, percent(float(sure)), text.count(int(own["n"].max()))])
    return markdown(("task", "model", f"top probability above {text.percent(SURE, 0)}, % of examples", "n"), made)


def sensitivity(table: pd.DataFrame, main: float | None) -> list[str]:
    """The searches' constants against size and the task's metric, means over seeds."""
    rows = own_metric(table)
    made = []
    keys = ["task", "localizer", "lr", "steps", "bias", "batch_size"]
    for key, own in rows.groupby(keys, sort=True, dropna=False):
        task, localizer, *constants = key
        told = ["" if pd.isna(value) else f"{value:g}" for value in constants]
        size = text.share(float(own["share"].mean()))
        made.append(
            [str(task), str(localizer), *told, size, percent(float(own["value"].mean())), str(own["seed"].nunique())]
        )
    return markdown(("task", "search", "rate", "steps", "bias", "batch", "size", "accuracy or F1, %", "seeds"), made)


MAIN: dict[str, Callable[[pd.DataFrame, float | None], list[str]]] = {
    "scores": scores, "stages": stages, "overlap": overlap, "gain": gain, "makeup": makeup, "histogram": histogram,
    "sensitivity": sensitivity,
}  # fmt: skip


def _tables(studies: Sequence[StudyFolder], name: str) -> pd.DataFrame:
    """One table of several studies, with the study's name and its scale's main size."""
    held = [
        study.table(name).assign(study=study.name, main=main_share(study.record.scale) or np.nan)
        for study in studies
        if name in study.tables()
    ]
    held = [table for table in held if not table.empty]
    return pd.concat(held, ignore_index=True) if held else pd.DataFrame()


def against_movement(studies: Sequence[StudyFolder]) -> list[str]:
    """Searched regions against top movement at equal size: how often which is better, by size."""
    rows = _tables(studies, "differences")
    if rows.empty:
        return []
    rows = rows[(rows["a"] == "graft") & (rows["b"] == "graft_movement") & (rows["id_task"] == rows["task"])]
    rows = own_metric(rows[rows["localizer"].isin(SEARCHED)])
    # the same runs may stand in several studies
    keys = ["id_task", "setting", "recipe", "localizer"]
    rows = rows.assign(near=rows["share"].map("{:.3g}".format).where(rows["localizer"] != OWN_SIZE, OWN_SIZE))
    rows = rows.drop_duplicates([*keys, "near"])
    made = []
    for (localizer, _), own in sorted(
        rows.groupby(["localizer", "near"]), key=lambda g: (g[0][0], g[1]["share"].min())
    ):
        counts = [str(sum(one is wanted for one in _beyond(own))) for wanted in (True, False, None)]
        ends = _range(text.points(own["value"].min()), text.points(own["value"].max()))
        made.append([str(localizer), _sizes(own["share"]), *counts, ends])
    if not made:
        return []
    every = _beyond(rows)
    said = (
        f"Of {len(every)} comparisons the search is better in {sum(one is True for one in every)}, top movement in "
        f"{sum(one is False for one in every)}; {sum(one is None for one in every)} stay open."
    )
    head = ("search", "size", "search better", "movement better", "open", "differences from task to task")
    return [said, "", *markdown(head, made)]


OWN_SIZE = "learned"
"""A search whose size is what comes out."""


def _beyond(rows: pd.DataFrame) -> list[bool | None]:
    return [beyond(low, high) for low, high in zip(rows["low"], rows["high"], strict=True)]


def _sizes(shares: pd.Series) -> str:
    return _range(text.share(float(shares.min())), text.share(float(shares.max())))


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def calibration(studies: Sequence[StudyFolder]) -> list[str]:
    """ECE of the graft at 95 % of the gain against the fine-tuned model, and against it temperature-scaled."""
    rows = _tables(studies, "recovered")
    if rows.empty:
        return []
    rows = rows[rows["localizer"].isin(SEARCHED[:2]) & np.isclose(rows["gain_share"], 0.95)]
    rows = rows.drop_duplicates(["id_task", "setting", "recipe", "localizer"])
    made = []
    for r in rows.sort_values(["localizer", "id_task"], kind="stable").to_dict("records"):
        if not r["reached"]:
            made.append([r["id_task"], r["localizer"], "none reaches it", "", "", "", "", ""])
            continue
        less = [_judged(r, f"ece_less_{rival}") for rival in ("ft", "scaled")]
        made.append(
            [
                r["id_task"], r["localizer"], text.share(r["share"]), percent(r["gain"], r["gain_low"], r["gain_high"]),
                percent(r["ece"], r["ece_low"], r["ece_high"]), percent(r["ece_ft"]), percent(r["ece_ft_scaled"]),
                "; ".join(less),
            ]
        )  # fmt: skip
    head = (
        "task", "search", "size", "gain on test, %", "ECE graft, %", "ECE fine-tuned, %", "ECE temp.-scaled, %",
        "graft less fine-tuned; less temp.-scaled, points",
    )  # fmt: skip
    reached = rows[rows["reached"]]
    said = []
    for rival, name in (("ft", "the fine-tuned model"), ("scaled", "that model temperature-scaled")):
        ends = zip(reached[f"ece_less_{rival}_low"], reached[f"ece_less_{rival}_high"], strict=True)
        found = [beyond(low, high, 0.0, -1) for low, high in ends]
        better, worse = sum(one is True for one in found), sum(one is False for one in found)
        said.append(f"against {name} better in {better}, worse in {worse}, open in {len(found) - better - worse}")
    told = f"Grafts that reach it: {len(reached)} of {len(rows)}; ECE {'; '.join(said)}."
    return [told, "", *markdown(head, made)]


def _judged(row: dict, name: str) -> str:
    """`−5.0 (−6.5 to −3.5), better`."""
    value, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if not np.isfinite(value):
        return text.MISSING
    said = {True: "better", False: "worse", None: "open"}[beyond(low, high, 0.0, -1)]
    return f"{percent(value, low, high)}, {said}"


def relatives(studies: Sequence[StudyFolder]) -> list[str]:
    """Overlap of regions of related tasks against unrelated ones."""
    rows = _tables(studies, "isolation")
    if rows.empty:
        return []
    made = [
        [
            r["study"],
            r["kind"],
            r["relation"],
            percent(r["value"], r["low"], r["high"]),
            percent(r["chance"]),
            str(r["pairs"]),
        ]
        for r in rows.to_dict("records")
        if r["relation"] != "same" and r["kind"] == "overlap"
    ]
    return markdown(("study", "kind", "tasks", "share, %", "by chance, %", "pairs"), made)
