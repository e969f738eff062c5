"""How a study's tables are called and headed, and the words for what stands in their cells: as in the figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from skillviz.core.metrics import metric_row
from skillviz.models.finetune.recipes import RECIPES
from skillviz.plots.continual import STYLES as MODES
from skillviz.plots.methods import method_style
from skillviz.plots.theme import localizer_style, state_style
from skillviz.show import text

TITLES = {
    "scores": "scores",
    "differences": "differences",
    "recovered": "size that recovers the gain",
    "overlap": "shared entries",
    "isolation": "related and unrelated tasks",
    "gain": "what regions give",
    "stages": "stages",
    "makeup": "make-up of regions",
    "histogram": "confidence",
    "paths": "WiSE paths",
    "stability": "stability",
    "sensitivity": "constants of the search",
}
HEADS = {
    "id_task": "trained on", "task": "task", "setting": "training data", "recipe": "fine-tuned by",
    "base": "base model",
    "share": "region size, %", "size": "region size, entries", "touched": "parameters touched", "sd": "sd over seeds",
    "mean": "mean", "low": "low", "high": "high", "pooled_low": "low",
    "pooled_high": "high", "n": "examples", "a": "method A", "b": "method B",
    "over": "interval over", "gain_share": "gain asked for, %", "reached": "reached", "reached_on": "reached on",
    "value_ft": "fine-tuned", "gain": "gain recovered", "ece": "ECE", "ece_ft": "ECE, fine-tuned",
    "ece_ft_scaled": "ECE, temperature-scaled", "ece_less_ft": "ECE less fine-tuned",
    "ece_less_scaled": "ECE less temperature-scaled", "agreement": "agreement", "accuracy": "accuracy",
    "row": "region of the row", "column": "region of the column", "kind": "kind", "chance": "by chance",
    "of": "regions of", "purified": "purified", "stage_task": "trained last", "change": "change since learned",
    "change_low": "change, low", "change_high": "change, high", "is_bias": "bias", "selected": "selected entries",
    "total": "all entries", "density_ratio": "× its fair share", "low_edge": "from", "high_edge": "to",
    "count": "examples in the bin", "correct": "of them right", "alpha": "α", "source": "what differs", "iou": "IoU",
    "lr": "learning rate", "bias": "bias of the mask", "batch_size": "examples a step",
}  # fmt: skip
"""A column's heading, where its name is no word; with `_low` and `_high` where the table has its ends."""
OWN = {
    ("differences", "value"): "A less B", ("overlap", "seeds"): "mask seeds", ("scores", "low"): "low, seeds only",
    ("scores", "high"): "high, seeds only", ("makeup", "share"): "share of region", ("makeup", "seed"): "mask seed",
    ("sensitivity", "seed"): "mask seed", ("histogram", "n"): "examples in all", ("recovered", "value"): "graft",
}  # fmt: skip
"""The heading of a column that stands for something else in one table."""
MEANINGS = {
    "method": "what was scored; the methods are told below",
    "a": "the first of the two methods; told below",
    "b": "the second of them",
    "over": "what the interval speaks of: examples and seeds drawn again together (unpaired: each side's own, put "
    "together, which is wider), or seeds alone",
    "metric": "what was measured",
}
"""A column's meaning, where the table's own speaks of names in the code."""
POINTS = ("differences",)  # tables whose values are differences


def title(table: str) -> str:
    """The table's name as the page has it."""
    return TITLES.get(table, table)


def head(table: str, column: str, percent: bool) -> str:
    """A column's heading, with its unit."""
    stem, end = next(((column.removesuffix(e), e) for e in ("_low", "_high") if column.endswith(e)), (column, ""))
    words = OWN.get((table, column)) or HEADS.get(column)
    if words is None:
        words = f"{OWN.get((table, stem)) or HEADS.get(stem, stem)}, {end[1:]}" if end else column.replace("_", " ")
    if not percent or words.endswith("%"):
        return words
    return f"{words}, {'points' if table in POINTS or '_less_' in column or column.startswith('change') else '%'}"


def meaning(column: str, own: str) -> str:
    """What a column holds."""
    return MEANINGS.get(column, own)


def worded(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the figures' words for methods, localizers, metrics and so on; the argument is left as it is."""
    found = table.copy()
    for column, words in WORDS.items():
        if column in found and not pd.api.types.is_numeric_dtype(found[column]):
            known = {value: words(value) for value in found[column].unique() if isinstance(value, str)}
            found[column] = found[column].astype(object).map(lambda value, known=known: known.get(value, value))
    return found


def _localizer(name: str) -> str:
    known, comma, rest = name.partition(", ")
    return localizer_style(known).title + comma + rest if name else ""


def _recipe(name: str) -> str:
    """A recipe with what differs among its models; two of them where one is compared with the other."""
    parts = [part.partition(", ") for part in name.split(" less ")]
    return " less ".join(RECIPE_WORDS.get(known, known) + comma + rest for known, comma, rest in parts)


def _joined(name: str) -> str:
    return name.replace("+", " + ") if " + " not in name else name


def _state(name: str) -> str:
    first, space, rest = name.partition(" ")
    return state_style(first).title + space + rest


def _mode(name: str) -> str:
    return MODES[name].title if name in MODES else {"independent": "a model a task"}.get(name, name)


RECIPE_WORDS = {"given": "as given", **{row.name: row.title for row in RECIPES.values()}}
WORDS: dict[str, Callable[[str], Any]] = {
    "method": lambda name: method_style(name).title,
    "a": lambda name: method_style(name).title,
    "b": lambda name: method_style(name).title,
    "localizer": _localizer,
    "metric": lambda name: {"recovered": "gain recovered"}.get(name, metric_row(name).title),
    "recipe": _recipe,
    "base": text.short_source,
    "id_task": _joined,
    "of": _joined,
    "state": _state,
    "mode": _mode,
    "kind": lambda name: {"iou": "IoU", "overlap": "of the column's region"}.get(name, name),
    "relation": lambda name: name.replace(" - ", " less "),
    "path": lambda name: {"wise-ft": "WiSE-FT", "wise-graft": "WiSE-Graft"}.get(name, name),
    "source": lambda name: {"bootstrap": "bootstrap samples"}.get(name, name),
}
