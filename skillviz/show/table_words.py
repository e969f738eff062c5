"""Titles of a study's tables, and the words in their cells: the same as in the figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd

from skillviz.analysis.overlaps import RELATED_LESS_UNRELATED
from skillviz.analysis.readable_table import ReadableTable, as_stored, stored_heading
from skillviz.analysis.tables import without_tuples
from skillviz.core.methods import METHODS
from skillviz.core.metrics import metric_row
from skillviz.models.finetune.recipes import RECIPES
from skillviz.plots.continual import STYLES as MODES
from skillviz.plots.methods import method_style
from skillviz.plots.theme import localizer_style, state_style
from skillviz.runs.tables import Column
from skillviz.show import text
from skillviz.tasks.readable_names import readable

TITLES = {
    "scores": "scores",
    "differences": "differences",
    "recovered": "size that recovers the gain",
    "overlap": "shared entries",
    "isolation": "related and unrelated tasks",
    "variants": "the same for each start or optimizer",
    "gain": "what regions give",
    "subsets": "subsets of tasks",
    "federated": "federated training",
    "stages": "stages",
    "composition": "composition of regions",
    "histogram": "confidence",
    "paths": "WiSE paths",
    "stability": "stability",
    "checkpoints": "checkpoints",
    "sensitivity": "constants of the search",
}
MEANINGS = {
    "method": "what was scored; the methods are explained below",
    "a": "the first of the two methods; explained below",
    "b": "the second of them",
    "over": "what the interval is over: examples and seeds (unpaired: each side's own interval, joined, which is "
    "wider); empty without an interval",
    "metric": "what was measured",
}
"""A column's meaning, if the table's own uses names from the code."""


def title(table: str) -> str:
    """The table's name on the page."""
    return TITLES.get(table, table)


def meaning(column: Column) -> str:
    """The meaning of a column."""
    return MEANINGS.get(column.name, column.meaning)


def worded(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the figures' words for methods, localizers, metrics and so on; the argument is not changed."""
    worded_table = without_tuples(table)
    for column, words in WORDS.items():
        if column in table and not pd.api.types.is_numeric_dtype(table[column]):
            cells = worded_table[column]
            known = {value: words(value) for value in cells.unique() if isinstance(value, str)}
            worded_table[column] = cells.astype(object).map(lambda value, known=known: known.get(value, value))
    return worded_table


def in_words(table: pd.DataFrame) -> ReadableTable:
    """A stored table with readable words and headings, for use in a text."""
    stored = as_stored(worded(table))
    name = "composition" if "density_ratio" in stored.names else ""  # there, a share is a share of the region
    return replace(stored, headings=tuple(stored_heading(column, name) for column in stored.names))


def with_task_names(table: pd.DataFrame) -> pd.DataFrame:
    """The table for figures, with readable names instead of the tasks' ids, which files keep as keys."""
    return table.assign(**{name: table[name].map(_named).astype(object) for name in TASKS if name in table})


def _named(cell: Any) -> Any:
    return tuple(map(readable, cell)) if isinstance(cell, tuple) else readable(cell) if isinstance(cell, str) else cell


def _localizer(name: str) -> str:
    return localizer_style(name).title if name else ""


def _recipe(name: str) -> str:
    return RECIPE_WORDS.get(name, name)


def _mode(name: str) -> str:
    return MODES[name].title if name in MODES else METHODS[name].title if name in METHODS else name


RECIPE_WORDS = {"given": "as given", **{row.name: row.title for row in RECIPES.values()}}
TASKS = (
    "task", "id_task", "stage_task", "dataset", "row_task", "column_task", "region", "region_tasks", "row",
    "column", "where",
)  # fmt: skip
"""Columns that name tasks."""
WORDS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(TASKS, readable),
    "method": lambda name: method_style(name).title,
    "a": lambda name: method_style(name).title,
    "b": lambda name: method_style(name).title,
    "localizer": _localizer,
    "row_localizer": _localizer,
    "column_localizer": _localizer,
    "metric": lambda name: metric_row(name).title,
    "recipe": _recipe,
    "recipe_b": _recipe,
    "base": text.short_source,
    "state": lambda name: state_style(name).title,
    "mode": _mode,
    "kind": lambda name: {"iou": "IoU", "overlap": "of the column's region"}.get(name, name),
    "relation": lambda name: {RELATED_LESS_UNRELATED: "related − unrelated"}.get(name, name),
    "path": lambda name: {"wise-ft": "WiSE-FT", "wise-graft": "WiSE-Graft"}.get(name, name),
    "source": lambda name: {"bootstrap": "bootstrap samples"}.get(name, name),
}
