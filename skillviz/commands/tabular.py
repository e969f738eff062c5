"""Tables of studies as commands print them: on a terminal what matters, in a pipe every column under its stored name.

A pipe gets tab-separated rows without a frame, never folded and never cut. A terminal gets each estimate with its 95 %
interval in one cell, units in the headings, and above the table what all rows share.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skillviz.commands.output import say
from skillviz.core.metrics import metric_row

OF_THE_METRIC = ("mean", "value", "change", "published", "std")
"""Columns of the unit that the row's metric has."""
PERCENT = ("share", "gain_share", "chance", "iou", "low_edge", "high_edge")
UNITS = {"size": "entries", "touched": "entries", "selected": "entries", "total": "entries", "estimated": "seconds"}
ENDS, CENTRES = ("low", "high"), ("mean", "value", "iou")
"""The ends of an interval, and the columns whose interval bears no other name."""
HIDDEN = ("sd", "touched")
"""Of less interest than their width: for pipes and files."""
GROUPS, FEW = ("setting", "recipe", "id_task", "task", "split"), 3
"""Columns that rows come together by where a terminal is narrow, if that makes groups of a few rows on average."""
LEAST = 9
"""Letters that a column needs for its cells not to break apart."""


@dataclass(frozen=True)
class Readable:
    """A table for the eye: what all rows share, the headings, which columns hold numbers, and the cells."""

    shared: str
    names: tuple[str, ...]
    headings: tuple[str, ...]
    is_number: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """Letters of each column's longest cell."""
        columns = zip(self.headings, *self.rows, strict=True)
        return tuple(max(map(len, cells)) for cells in columns)

    def parts(self, width: int) -> list[tuple[str, Readable]]:
        """The table whole where it fits into a width, else its rows by task and split, each part under its title."""
        apart = [i for i, name in enumerate(self.names) if name in GROUPS]
        groups = dict.fromkeys(tuple(row[i] for i in apart) for row in self.rows)
        if sum(self.widths) + 2 * len(self.widths) <= width or len(groups) * FEW > len(self.rows):
            return [("", self)]
        return [(", ".join(dict.fromkeys(group)), self._part(apart, group)) for group in groups]

    def _part(self, apart: list[int], group: tuple[str, ...]) -> Readable:
        """The rows of one group, without the columns that tell it from others."""
        kept = [i for i in range(len(self.names)) if i not in apart]
        rows = [row for row in self.rows if tuple(row[i] for i in apart) == group]
        return Readable(
            "",
            tuple(self.names[i] for i in kept),
            tuple(self.headings[i] for i in kept),
            tuple(self.is_number[i] for i in kept),
            tuple(tuple(row[i] for i in kept) for row in rows),
        )


def print_table(title: str, frame: pd.DataFrame, *, keep: Sequence[str] = (), is_alone: bool = True) -> None:
    """Prints a table; `keep` names columns that stand in it even where all rows agree.

    In a pipe the title is left out of a table that is alone, so that nothing but rows is read there. On a terminal
    that is too narrow, rows of one task and split come together under it.
    """
    if not sys.stdout.isatty():
        typer.echo("\n".join([*([] if is_alone else [title]), *tab_separated(frame), *([] if is_alone else [""])]))
        return
    console = Console()
    found = readable(frame, keep)
    console.print(title, style="bold", markup=False, highlight=False)
    if found.shared:
        say(found.shared)
    for name, part in found.parts(console.width):
        if name:
            console.print(f"\n{name}", style="bold", markup=False, highlight=False)
        _draw(console, part)


def _draw(console: Console, found: Readable) -> None:
    """Rows beneath one another; where cells would break apart, each row as a list of its columns."""
    if LEAST * len(found.names) > console.width:
        for row in found.rows:
            grid = Table.grid(padding=(0, 2))
            for heading, cell in zip(found.headings, row, strict=True):
                grid.add_row(escape(heading), escape(cell))
            console.print(grid, "")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for heading, is_number, width in zip(found.headings, found.is_number, found.widths, strict=True):
        table.add_column(escape(heading), overflow="fold", justify="right" if is_number else "left", max_width=width)
    for row in found.rows:
        table.add_row(*map(escape, row))
    console.print(table)


def tab_separated(frame: pd.DataFrame) -> list[str]:
    """The heading and every row, all columns in the units that they are stored in; numbers to six digits."""
    rows = [[_plain(value) for value in row] for row in frame.itertuples(index=False)]
    return ["\t".join(row) for row in [[str(name) for name in frame.columns], *rows]]


def readable(frame: pd.DataFrame, keep: Sequence[str] = ()) -> Readable:
    """The table for the eye. Columns without any value are left out; so are HIDDEN, which `shared` names."""
    names = _shown(frame)
    shared = [n for n in names if n not in keep and not _is_estimate(n, frame) and _is_same(frame[n])]
    columns = [n for n in names if n not in shared] or shared[:1]
    told = [n for n in shared if n not in columns]
    cells = {name: _cells(name, frame) for name in {*columns, *told}}
    words = [", ".join(f"{n} {cells[n][0]} {_unit(n, frame)}".rstrip() for n in told)] if told else []
    hidden = [n for n in HIDDEN if n in frame and frame[n].notna().any()]
    words += [f"not shown: {', '.join(hidden)}"] if hidden else []
    return Readable(
        f"All rows: {'; '.join(words)}." if told else f"{words[0].capitalize()}." if words else "",
        tuple(columns),
        tuple(_heading(name, frame) for name in columns),
        tuple(frame[name].dtype.kind in "fiu" for name in columns),
        tuple(zip(*(cells[name] for name in columns), strict=True)),
    )


def _shown(frame: pd.DataFrame) -> list[str]:
    """The columns with something in them, each estimate standing for its ends."""
    names = [str(name) for name in frame.columns]
    ends = {f"{prefix}_{end}" for prefix in ("pooled", *names) for end in ENDS}
    ends |= set(ENDS) if any(name in frame for name in CENTRES) else set()
    kept = [n for n in names if n not in ends and n not in HIDDEN and not (frame[n].isna() | (frame[n] == "")).all()]
    is_twice = {"id_task", "task"} <= set(kept) and list(frame["id_task"]) == list(frame["task"])
    return [name for name in kept if not (name == "id_task" and is_twice)]


def _is_same(values: pd.Series) -> bool:
    return len(values) > 1 and values.nunique(dropna=False) == 1


def _is_estimate(name: str, frame: pd.DataFrame) -> bool:
    return name in OF_THE_METRIC or _ends(name, frame) is not None


def _ends(name: str, frame: pd.DataFrame) -> tuple[pd.Series, pd.Series] | None:
    """The ends of a column's interval: over examples and seeds where they are known, else over seeds."""
    own = [f"{name}_{end}" for end in ENDS]
    if set(own) <= set(frame.columns):
        return frame[own[0]], frame[own[1]]
    if name not in CENTRES or not set(ENDS) <= set(frame.columns):
        return None
    if "pooled_low" not in frame:
        return frame["low"], frame["high"]
    pooled = frame["pooled_low"].notna()
    return frame["pooled_low"].where(pooled, frame["low"]), frame["pooled_high"].where(pooled, frame["high"])


def _unit(name: str, frame: pd.DataFrame) -> str:
    """The unit of a column in words; empty where each row's metric tells it, or there is none."""
    if "_less_" in name:
        return "points"
    if name in PERCENT:
        return "%"
    if "metric" in frame and name in OF_THE_METRIC:
        return ""
    return "%" if _ends(name, frame) is not None else UNITS.get(name, "")


def _heading(name: str, frame: pd.DataFrame) -> str:
    unit = _unit(name, frame)
    words = f"{name}, {unit}" if unit else name
    return f"{words} (95 %)" if _ends(name, frame) is not None else words


def _cells(name: str, frame: pd.DataFrame) -> list[str]:
    """The texts of a column."""
    if name == "metric":
        return [_metric(str(metric), {"a", "b"} <= set(frame.columns)) for metric in frame["metric"]]
    if not _is_estimate(name, frame):
        scale = 100.0 if name in PERCENT else 1.0
        return [_short(value * scale if scale != 1.0 else value, name) for value in frame[name]]
    metrics = frame["metric"] if "metric" in frame and name in OF_THE_METRIC else ["accuracy"] * len(frame)
    nothing = pd.Series([float("nan")] * len(frame))
    low, high = _ends(name, frame) or (nothing, nothing)
    return [_estimate(*found) for found in zip(frame[name], low, high, metrics, strict=True)]


def _metric(name: str, is_difference: bool) -> str:
    row = metric_row(name)
    return f"{row.title}, {row.difference_unit}" if is_difference and row.unit == "%" else row.axis


def _estimate(value: float, low: float, high: float, metric: str) -> str:
    """`82.5 (79.3–85.3)`: percent where the metric is a share, else three digits after the point."""
    return "" if value != value else metric_row(metric).cell(value, low, high)


def _short(value: Any, name: str) -> str:
    """A number to few digits, whole ones with thousands apart; a missing one is empty."""
    if pd.isna(value):
        return ""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    if name in ("seconds", "estimated"):
        return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
    return f"{value:,.0f}" if UNITS.get(name) == "entries" else f"{value:.3g}"


def _plain(value: Any) -> str:
    """A value as a program reads it: no thousands, nothing where it is missing, no tab or line break."""
    if pd.isna(value):
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    return " ".join(str(value).split())
