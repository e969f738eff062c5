"""Tables of studies that were stored with older columns, read as today's; estimates stay what they were.

Up to layout 4 what overlaps have by chance was that of random entries of the whole model in some rows, which is far too
low: these are blank here, and have no range, until the tables are made anew from stored regions.
Up to layout 3 calibration errors had percentile intervals, which hold the truth too rarely, and several means had an
interval over seeds alone, which leaves out the examples: both are blank here until the tables are made anew.
Up to layout 2 several facts stood in one text: `lora, rank 8` and `lora less sgd` in `recipe`, `learned lr=0.1` in
`localizer`, `all, head` in `setting`, `<task> <localizer> <size>` in the ends of `overlap`, `grafted 1%` in `state`,
`a+b` for several tasks. This is the one place that takes such texts apart.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from skillviz.analysis.seeds import is_calibration
from skillviz.analysis.tables import TABLES, check

JOINED, JOINT = "+", " + "
EVEN = 1e-3
"""Relative: how near to the even chance of its size a level stands for it."""
RENAMED = {"makeup": "composition"}
"""Names that tables were stored under, with today's."""


def read_older(table: pd.DataFrame, name: str, layout: int) -> pd.DataFrame:
    """A table of an older layout as today's columns have it; the argument is left as it is."""
    if layout < 3:
        table = READERS.get(name, lambda frame: frame)(table)
    if layout < 4:
        table = _with_one_interval(table, name)
    return check(_with_matched_chance(table, layout), name)


def _with_matched_chance(table: pd.DataFrame, layout: int) -> pd.DataFrame:
    """The table of layout 4 with the chance that is matched per tensor alone, and no range of it."""
    if "chance" not in table:
        return table
    chance = table["chance"].astype(float)
    if layout < 4 or "share" not in table:
        is_even = pd.Series(layout < 4, index=table.index)
    else:
        share = table["share"].astype(float)
        kind = table["kind"] if "kind" in table else pd.Series("iou", index=table.index)
        even = share.where(kind == "overlap", share / (2 - share))
        is_even = pd.Series(np.isclose(chance, even, EVEN, 0.0), index=table.index)
    return table.assign(chance=chance.mask(is_even), chance_low=np.nan, chance_high=np.nan)


def _with_one_interval(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The table of layout 3 with one interval an estimate: over examples and seeds, or none."""
    known = {column.name for column in TABLES[name].columns}
    table = table.assign(**{column: np.nan for column in known - set(table) if column.endswith("debiased")})
    if name == "scores":
        table = table.assign(low=table["pooled_low"], high=table["pooled_high"])
        table = table.drop(columns=["pooled_low", "pooled_high"])
    elif name == "recovered":
        ends = [column for column in known if column.endswith(("_low", "_high"))]
        table = table.assign(**dict.fromkeys(ends, np.nan), over="")
    elif name == "differences":
        table = _without_ends(table, table["over"] == "seeds")
    if "metric" in table:
        table = _without_ends(table, table["metric"].map(is_calibration))
    return table


def _without_ends(table: pd.DataFrame, rows: pd.Series) -> pd.DataFrame:
    """The table without the intervals of some of its rows."""
    ends = [column for column in ("low", "high", "change_low", "change_high") if column in table]
    blank = table.assign(**{column: table[column].astype(float).mask(rows) for column in ends})
    return blank.assign(over=blank["over"].mask(rows, "")) if "over" in blank else blank


def _parts(texts: pd.Series, separator: str) -> tuple[pd.Series, pd.Series]:
    """What stands before the first separator, and after it; empty where there is none."""
    parts = texts.astype(str).str.partition(separator)
    return parts[0], parts[2]


def _with_recipe(table: pd.DataFrame) -> pd.DataFrame:
    recipe, variant = _parts(table["recipe"], ", ")
    return table.assign(recipe=recipe, variant=variant)


def _with_localizer(table: pd.DataFrame) -> pd.DataFrame:
    """`learned lr=0.1`, and `stagewise, purified` of unions that were purified."""
    localizer, variant = _parts(table["localizer"].astype(str).str.replace(", ", " ", n=1), " ")
    return table.assign(localizer=localizer, search_variant=variant)


def _with_readout(table: pd.DataFrame) -> pd.DataFrame:
    setting, readout = _parts(table["setting"], ", ")
    return table.assign(setting=setting, readout=readout)


def _scores(table: pd.DataFrame) -> pd.DataFrame:
    table = _with_readout(_with_localizer(_with_recipe(table)))
    return table.assign(id_task=table["id_task"].astype(str).str.replace(JOINED, JOINT))


def _differences(table: pd.DataFrame) -> pd.DataFrame:
    a, b = _parts(table["recipe"], " less ")
    recipe_b, variant_b = _parts(b, ", ")
    table = _with_readout(_with_localizer(_with_recipe(table.assign(recipe=a))))
    return table.assign(recipe_b=recipe_b, variant_b=variant_b)


def _overlap(table: pd.DataFrame) -> pd.DataFrame:
    """The ends are tasks, or `<task> <localizer> <size>` where localizers are compared."""
    columns: dict[str, pd.Series] = {}
    sizes = pd.Series("", index=table.index)
    for end in ("row", "column"):
        words = [text.rsplit(" ", 2) for text in table[end].astype(str)]
        words = [three if len(three) == 3 else [text, "", ""] for text, three in zip(table[end], words, strict=True)]
        columns[f"{end}_task"] = pd.Series([task for task, _, _ in words], index=table.index, dtype="str")
        columns[f"{end}_localizer"] = pd.Series([name for _, name, _ in words], index=table.index, dtype="str")
        sizes = pd.Series([size for _, _, size in words], index=table.index, dtype="str")
    return table.drop(columns=["row", "column"]).assign(**columns, **_sizes(sizes))


def _histogram(table: pd.DataFrame) -> pd.DataFrame:
    state, size = _parts(table["state"], " ")
    return table.assign(state=state, **_sizes(size))


def _sizes(texts: pd.Series) -> dict[str, pd.Series]:
    """`size` and `share` of sizes as they were asked for: `1%`, `0.01`, or a count of entries."""
    shares = [_share(text) for text in texts]
    counts = [float(text) if text.isdecimal() else np.nan for text in texts]
    return {name: pd.Series(of, index=texts.index, dtype=float) for name, of in (("size", counts), ("share", shares))}


def _share(text: str) -> float:
    if text.endswith("%"):
        return float(text[:-1]) / 100
    return np.nan if not text or text.isdecimal() else float(text)


def _gain(table: pd.DataFrame) -> pd.DataFrame:
    tasks = [tuple(text.split(JOINED)) for text in table["of"]]
    return table.drop(columns="of").assign(region_tasks=pd.Series(tasks, index=table.index, dtype=object))


def _composition(table: pd.DataFrame) -> pd.DataFrame:
    localizer, variant = _parts(table["localizer"], ", ")
    return table.assign(localizer=localizer, variant=variant)


READERS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "scores": _scores,
    "differences": _differences,
    "recovered": lambda table: _with_readout(_with_localizer(_with_recipe(table))),
    "overlap": _overlap,
    "histogram": _histogram,
    "gain": _gain,
    "composition": _composition,
}
