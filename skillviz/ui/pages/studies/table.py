"""A study's table for the eye: what is looked for first, shares in percent, each column under its meaning."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.core.metrics import METRICS, metric_row
from skillviz.plots.methods import method_style
from skillviz.runs.tables import Column
from skillviz.show import text
from skillviz.studies.tables import METHODS, TABLES
from skillviz.ui.pages.studies import heads

PERCENT = tuple(metric.name for metric in METRICS.values() if metric.unit == "%")
FIRST = (
    "mode", "stage", "stage_task", "id_task", "task", "region", "row", "column", "of", "purified", "path", "alpha",
    "source", "state", "low_edge", "high_edge", "method", "a", "b", "localizer", "lr", "steps", "bias", "layer", "kind",
    "is_bias", "relation", "gain_share", "reached", "reached_on", "share", "metric", "mean", "value", "value_ft",
    "gain", "ece", "ece_ft", "ece_ft_scaled", "iou",
    "pooled_low", "pooled_high", "low", "high", "chance", "selected", "total", "count", "correct", "seeds", "n",
)  # fmt: skip
OF_THE_METRIC = (
    "mean", "sd", "value", "low", "high", "pooled_low", "pooled_high", "change", "change_low", "change_high",
)  # fmt: skip
SHARES = ("share", "gain_share", "chance", "iou", "low_edge", "high_edge")
SIZES = ("share", "chance")
COUNTS = ("size", "touched", "count", "correct")  # means over seeds


def columns(table: pd.DataFrame) -> list[str]:
    """Its columns in the order they are shown in: those asked for most first, those that say nothing last."""
    held = [c for c in FIRST if c in table] + [str(c) for c in table if c not in FIRST]
    is_twice = {"id_task", "task"} <= set(table) and table["id_task"].equals(table["task"])
    bare = [c for c in held if table[c].isna().all() or (c == "id_task" and is_twice)]
    return [c for c in held if c not in bare] + bare


def shown(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The table `name` for the eye: words for names, shares in percent; metrics that are no share stay as they are."""
    found = heads.worded(table)
    scale = table["metric"].isin(PERCENT).map({True: 100.0, False: 1.0}) if "metric" in table else 100.0
    for column in _in_percent(name):
        if column.name in found:
            found[column.name] = found[column.name] * (scale if column.name in OF_THE_METRIC else 100.0)
    for size in SIZES:
        if size in found:
            found[size] = found[size].map(_two_figures)
    for count in COUNTS:
        if count in found:
            found[count] = found[count].round()
    return found


def config(name: str) -> dict[str, Any]:
    """How the columns of the table `name` are headed and written; a column's meaning is its help."""
    percent = [column.name for column in _in_percent(name)]
    return {column.name: _config(name, column, column.name in percent) for column in TABLES[name].columns}


def columns_told(name: str) -> list[str]:
    """A line a column of the table `name`: its heading, its name in the CSV and its meaning; in Markdown."""
    percent = [column.name for column in _in_percent(name)]
    return [
        f"- **{text.plain(heads.head(name, c.name, c.name in percent))}** (`{c.name}`): "
        f"{text.plain(heads.meaning(c.name, c.meaning))}"
        for c in TABLES[name].columns
    ]


def aside(table: pd.DataFrame) -> str:
    """What of it is not in percent though its column says so; empty where all is."""
    others = sorted(set(table["metric"]) - set(PERCENT)) if "metric" in table else []
    units = {"nll": "NLL is in nats", "brier": "the Brier score goes from 0 to 2"}
    said = [units.get(metric, f"{metric_row(metric).title} has no unit") for metric in others]
    return f" Not in percent: {formats.listed(said, 9)}." if said else ""


def methods(table: pd.DataFrame) -> list[str]:
    """A line a method that occurs: its name in the page, and what it stands for; in Markdown."""
    held = {name for column in ("method", "a", "b") if column in table for name in table[column]}
    said = [f"  - **{method_style(n).title}**: {text.plain(words)}" for n, words in METHODS.items() if n in held]
    return ["- the methods:", *said] if said else []


def _two_figures(percent: float) -> float:
    """As `formats.share` writes a share: two figures below 10 %, one decimal above."""
    if pd.isna(percent) or percent == 0:
        return percent
    return round(percent, max(1, 1 - math.floor(math.log10(abs(percent)))))


def _in_percent(name: str) -> list[Column]:
    """The columns of a table that hold shares, or metrics that may be shares."""
    declared = [c for c in TABLES[name].columns if c.dtype == "float64"]
    if name == "recovered":  # all metrics of this table are shares
        return [c for c in declared if c.unit in ("", "of d")]
    return [c for c in declared if c.name in (*SHARES, *OF_THE_METRIC)]


def _config(name: str, column: Column, is_percent: bool) -> Any:
    title = heads.head(name, column.name, is_percent)
    help = heads.meaning(column.name, column.meaning)
    if column.dtype == "bool":
        return st.column_config.CheckboxColumn(title, help=help)
    if not column.dtype.lower().startswith(("float", "int")):
        return st.column_config.Column(title, help=help)
    form = "localized" if column.unit in ("entries", "examples") or column.name == "lr" else "%.4g"
    if is_percent:
        form = "%.3g" if column.name in (*SHARES, "iou") else "%.2f" if column.name in OF_THE_METRIC else "%.1f"
    return st.column_config.NumberColumn(title, help=help, format=form)
