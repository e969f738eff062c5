"""Figures of a study's tables, for every experiment: methods by size, shared entries, confidence, reliability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.tables import label
from skillviz.core import formats
from skillviz.core.metrics import FOREMOST, metric_row
from skillviz.plots.calibration import confidence_histogram
from skillviz.plots.figure import centers
from skillviz.plots.methods import against_touched
from skillviz.plots.overlap import overlap_map
from skillviz.plots.region import shares_by_kind, shares_by_layer
from skillviz.plots.sensitivity import SETTINGS, SIZE, by_setting
from skillviz.plots.theme import localizer_style
from skillviz.show.exhibit import OVER_SEEDS, Exhibit, drawn_once
from skillviz.show.methods import debiased_alone, touched_reads, touched_words
from skillviz.show.overlap import TITLES, alt, reads
from skillviz.show.sentences import metric_value
from skillviz.show.table_words import RECIPE_WORDS, with_task_names
from skillviz.tasks.readable_names import readable


@drawn_once
def scores_by_method(points: pd.DataFrame, id_task: str, task: str, metric: str, theme: str) -> Exhibit:
    """One metric of all methods of a task by the number of parameters that they touch."""
    shown, left_out = debiased_alone(points, metric)
    before = centers(shown[shown["method"] == "pretrained"], 1.0)
    levels = {"pretrained": float(before[0])} if len(before) else {}
    name = readable(task if task == id_task else f"{task} after training on {id_task}")
    return Exhibit(
        name=f"study_scores_{metric}",
        title=f"{metric_row(metric).heading} on {name}",
        figure=against_touched(shown, metric, references=levels, recipes=RECIPE_WORDS, theme=theme),
        reads=touched_reads(shown, metric) + f" 95% intervals are over examples and seeds{left_out}.",
        intervals=OVER_SEEDS,
        alt=f"{metric_row(metric).title} on {name} by parameters touched: {touched_words(shown, metric)}.",
        table=shown.reset_index(drop=True),
        words=("touched", "graft"),
    )


@drawn_once
def shared(table: pd.DataFrame, kind: str, theme: str) -> Exhibit:
    """The entries that regions share: `overlap` or `iou`."""
    rows, axes = _labelled(table[table["kind"] == kind].reset_index(drop=True))
    named = with_task_names(rows)
    return Exhibit(
        name=f"study_{kind}",
        title=TITLES[kind],
        figure=overlap_map(named, kind, of="region", axes=axes, theme=theme),
        reads=f"{reads(kind, rows['column'].nunique())} Means over mask seeds; no chance where regions are not stored.",
        alt=alt(named, kind),
        table=rows,
        words=(kind, "matched"),
    )


def _labelled(rows: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, str] | None]:
    """Adds `row` and `column`, the names of the two regions. If a study compares one localizer with others, there is
    one row per task and size and one column per localizer, with the axes' titles."""
    of = list(dict.fromkeys(rows["row_localizer"]))
    if not any(of):
        return rows.assign(row=rows["row_task"], column=rows["column_task"]), None
    titles = {name: localizer_style(name).title for name in {*of, *rows["column_localizer"]}}
    sizes = [_size(row) for row in rows.to_dict("records")]
    tasks = [label(task, size) for task, size in zip(rows["row_task"], sizes, strict=True)]
    named = rows.assign(row=tasks, column=rows["column_localizer"].map(titles))
    if len(of) > 1:
        named = named.assign(row=[label(r, titles[o]) for r, o in zip(tasks, rows["row_localizer"], strict=True)])
    return named, ("region found by", f"{titles[of[0]]} region of" if len(of) == 1 else "region of")


def _size(row: Mapping[Any, Any]) -> str:
    """The size of a row's regions, as a share if known."""
    if row["share"] == row["share"]:
        return formats.share(row["share"])
    return f"{row['size']:,.0f}" if row["size"] == row["size"] else ""


@drawn_once
def histogram(table: pd.DataFrame, task: str, theme: str) -> Exhibit:
    """Confidence of the models on one task."""
    rows = table[table["task"] == task].reset_index(drop=True)
    rows = rows.assign(state=[label_of_state(row) for row in rows.to_dict("records")])
    bins = rows.rename(columns={"low_edge": "lower", "high_edge": "upper"}).assign(
        bin=rows.groupby("state").cumcount(),
        accuracy=rows["correct"] / rows["count"],
        confidence=np.nan,
        low=np.nan,
        high=np.nan,
    )
    phrases = []
    for state, of_state in rows.groupby("state", sort=False):
        top = of_state.loc[of_state["high_edge"] == of_state["high_edge"].max(), "count"].sum()
        phrases.append(f"{state} {formats.percent(float(top / of_state['count'].sum()))} in the highest bin")
    return Exhibit(
        name="study_histogram",
        title=f"Confidence on {readable(task)}",
        figure=confidence_histogram(bins, theme=theme),
        reads="bars are test examples by confidence; the hatched part of each is wrong. "
        "Counts are means over mask seeds.",
        alt=f"Confidence on {readable(task)}: {'; '.join(phrases)}.",
        table=rows,
        words=("confidence",),
    )


def label_of_state(row: Mapping[Any, Any]) -> str:
    """`finetuned`, or `grafted 1%`: a graft with the size of its region."""
    return f"{row['state']} {_size(row)}".rstrip()


@drawn_once
def composition_by_layer(table: pd.DataFrame, task: str, localizer: str, variant: str, theme: str) -> Exhibit:
    """The layers of the entries in a task's regions, all seeds together."""
    rows = _summed(table, task, localizer, variant)
    layers = rows.groupby("layer")["selected"].sum() / max(int(rows["selected"].sum()), 1)
    phrases = [f"layer {number} {formats.percent(share)}" for number, share in layers.items()]
    return Exhibit(
        name="study_layers",
        title=f"Regions of {readable(task)}, by layer",
        figure=shares_by_layer(rows, theme=theme),
        reads="a line shows the layers of one module's chosen entries and adds up to 100%; *all kinds* is the whole "
        "region. The modules with the most entries are drawn, the others are in the table. All mask seeds together.",
        alt=f"Share of the chosen entries by layer: {', '.join(phrases)}.",
        table=rows,
        words=("region",),
    )


@drawn_once
def composition_by_kind(table: pd.DataFrame, task: str, localizer: str, variant: str, theme: str) -> Exhibit:
    """The module kinds of the entries in a task's regions, all seeds together."""
    rows = _summed(table, task, localizer, variant)
    kinds = rows.groupby("kind", sort=False)["selected"].sum() / max(int(rows["selected"].sum()), 1)
    return Exhibit(
        name="study_kinds",
        title=f"Regions of {readable(task)}, by module",
        figure=shares_by_kind(rows, theme=theme),
        reads="bars are shares of the chosen entries, the upright marks what a region spread evenly would have. All "
        "mask seeds together.",
        alt=f"Share by module kind: {', '.join(f'{kind} {formats.percent(share)}' for kind, share in kinds.items())}.",
        table=rows,
        words=("region", "density"),
    )


@drawn_once
def settings(table: pd.DataFrame, task: str, metric: str, theme: str) -> Exhibit:
    """The size reached (`size`) or a metric on one task, by the constants of the searches."""
    rows = _settings(table[table["task"] == task])
    shown = rows[rows["metric"] == metric].reset_index(drop=True)
    is_size = metric == SIZE
    phrases = [
        f"{_setting_words(row)}: {formats.share(value) if is_size else metric_value(metric, value)}"
        for row, value in zip(shown.to_dict("records"), centers(shown, 1.0), strict=True)
    ]
    ends = (
        "smallest to the largest region of the mask seeds"
        if is_size
        else "lowest to the highest end of the 95% intervals over test examples of the mask seeds"
    )
    title = "Size reached" if is_size else metric_row(metric).heading
    return Exhibit(
        name=f"study_settings_{metric}",
        title=f"{title} on {readable(task)} by the constants of the search",
        figure=by_setting(rows, metric, theme=theme),
        reads="left the learned mask, whose size is an outcome, by learning rate, a line for each choice of steps "
        "and bias; right of the upright line searches that are told their size. A flat row of marks: the constants "
        f"matter little. A mark is the mean over mask seeds, its line goes from the {ends}.",
        alt=f"{title} on {task}: {'; '.join(phrases)}.",
        table=shown,
        words=("localizer",),
    )


def _settings(table: pd.DataFrame) -> pd.DataFrame:
    """One row per setting and metric, with the size as an additional metric: means over mask seeds, and their ends."""
    keys = ["localizer", "lr", "steps", "bias", "batch_size"]
    first = table[table["metric"] == (table["metric"].iloc[0] if len(table) else "")]
    size = first.assign(metric=SIZE, value=first["share"], debiased=np.nan, low=first["share"], high=first["share"])
    scored = table[table["metric"].isin(FOREMOST)]
    groups = pd.concat([size, scored]).groupby([*keys, "metric"], dropna=False, sort=True)
    means = {name: (name, "mean") for name in ("value", "debiased")}
    rows = groups.agg(**means, low=("low", "min"), high=("high", "max"), seeds=("seed", "nunique"))
    return rows.reset_index()[[*SETTINGS, "debiased", "seeds"]]


def _setting_words(row: Mapping[Any, Any]) -> str:
    """A setting in words: `learned, rate 1e+07, 100 steps, bias 10`."""
    words = {"rate": row["lr"], "bias": row["bias"], "batch": row["batch_size"]}
    constants = [f"{name} {value:g}" for name, value in words.items() if value == value]
    return ", ".join([localizer_style(str(row["localizer"])).title, f"{row['steps']:g} steps", *constants])


def _summed(table: pd.DataFrame, task: str, localizer: str, variant: str) -> pd.DataFrame:
    """The counts of a task's regions, summed over mask seeds."""
    rows = table[(table["task"] == task) & (table["localizer"] == localizer) & (table["variant"] == variant)]
    keys = ["layer", "kind", "is_bias"]
    return rows.groupby(keys, sort=False, dropna=False)[["selected", "total"]].sum().reset_index()
