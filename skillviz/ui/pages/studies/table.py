"""A study's table for display: important columns first, shares in percent, each column with its meaning as help."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import streamlit as st

from skillviz.analysis.readable_table import heading, kind, scales, title
from skillviz.analysis.tables import TABLES
from skillviz.core.methods import METHODS
from skillviz.runs.tables import Column
from skillviz.show import table_words, text

FIRST = (
    "mode", "stage", "stage_task", "id_task", "task", "region", "row", "column", "of", "purified", "path", "alpha",
    "source", "state", "low_edge", "high_edge", "method", "a", "b", "localizer", "lr", "steps", "bias", "layer", "kind",
    "is_bias", "relation", "gain_share", "reached", "reached_on", "share", "metric", "mean", "value", "value_ft",
    "gain", "ece", "ece_ft", "ece_ft_scaled", "iou",
    "debiased", "low", "high", "chance", "chance_low", "chance_high", "selected", "total", "count", "correct",
    "seeds", "n",
)  # fmt: skip
IN_PERCENT = ("metric", "share", "points")
SHORT = ("share", "chance", "chance_low", "chance_high")  # shares with two digits
LONG = ("gain_share", "iou", "low_edge", "high_edge")  # with three digits


def columns(table: pd.DataFrame) -> list[str]:
    """The table's columns in display order: the most important first, empty and duplicate ones last."""
    names = [c for c in FIRST if c in table] + [str(c) for c in table if c not in FIRST]
    is_twice = {"id_task", "task"} <= set(table) and table["id_task"].equals(table["task"])
    empty = [c for c in names if table[c].isna().all() or (c == "id_task" and is_twice)]
    return [c for c in names if c not in empty] + empty


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """The table for display: words for names, shares in percent; other metrics are unchanged."""
    words = table_words.worded(table)
    for column in map(str, table):
        if kind(column) in IN_PERCENT:
            words[column] = table[column] * scales(column, table)
        elif kind(column) in ("entries", "examples"):
            words[column] = table[column].round()  # fractional because they are means over seeds
        if column in SHORT:
            words[column] = words[column].map(_two_figures)
    return words


def config(name: str) -> dict[str, Any]:
    """The headings and number formats of the columns of table `name`; a column's help is its meaning."""
    return {column.name: _config(name, column) for column in TABLES[name].columns}


def columns_in_words(name: str) -> list[str]:
    """One line per column of table `name`: its heading, its name in the CSV and its meaning, in Markdown."""
    return [
        f"- **{text.plain(_heading(name, column))}** (`{column.name}`): {text.plain(table_words.meaning(column))}"
        for column in TABLES[name].columns
    ]


def methods(table: pd.DataFrame) -> list[str]:
    """One line per method in the table: its displayed name and its meaning, in Markdown."""
    names = {name for column in ("method", "a", "b") if column in table for name in table[column]}
    lines = [f"  - **{row.title}**: {text.plain(row.phrase)}" for row in METHODS.values() if row.name in names]
    return ["- the methods:", *lines] if lines else []


def _two_figures(percent: float) -> float:
    """The percentage rounded as `formats.share` rounds: two digits below 10%, one decimal above."""
    if pd.isna(percent) or percent == 0:
        return percent
    return round(percent, max(1, 1 - math.floor(math.log10(abs(percent)))))


def _heading(name: str, column: Column) -> str:
    is_number = column.dtype.lower().startswith(("float", "int"))
    return heading(column.name, name, is_difference=name == "differences") if is_number else title(column.name, name)


def _config(name: str, column: Column) -> Any:
    words, help = _heading(name, column), table_words.meaning(column)
    if column.dtype == "bool":
        return st.column_config.CheckboxColumn(words, help=help)
    if not column.dtype.lower().startswith(("float", "int")):
        return st.column_config.Column(words, help=help)
    form = "localized" if column.unit in ("entries", "examples") or column.name == "lr" else "%.4g"
    if kind(column.name) in IN_PERCENT:
        form = "%.2f" if kind(column.name) == "metric" else "%.3g" if column.name in (*SHORT, *LONG) else "%.1f"
    return st.column_config.NumberColumn(words, help=help, format=form)
