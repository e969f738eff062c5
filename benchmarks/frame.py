"""The frame of every benchmark: rows that are kept as they are made, tables in Markdown pages, the machine."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from skillviz.atomic import write_file
from skillviz.errors import BadInput

ROOT = Path(__file__).resolve().parents[1]
RESULTS, README = ROOT / "benchmarks" / "results", ROOT / "benchmarks" / "README.md"
Cells = Iterable[tuple[Mapping[str, Any], Callable[[], Iterable[Mapping[str, Any]]]]]
"""Cells of a grid: the key of each, and a function for its rows."""
SECONDS = 20.0  # seconds between two lines on the progress of a grid


class Rows:
    """The rows of a CSV, found by their values of `key`; the file is written anew, atomically, with each added row.

    With `parquet`, that file has the rows too, with columns of bytes, which the CSV omits.
    """

    def __init__(self, table: Path, key: Sequence[str], parquet: Path | None = None) -> None:
        self.table, self.key, self.parquet = table, list(key), parquet
        self.rows: list[dict[Any, Any]] = []
        if parquet is not None and parquet.is_file():
            self.rows = pd.read_parquet(parquet).to_dict("records")
        elif parquet is None and table.is_file():  # as texts, so that unchanged rows stay byte for byte the same
            self.rows = pd.read_csv(table, dtype=str, keep_default_na=False).to_dict("records")
        self.keys = set(map(self.key_of, self.rows))

    def key_of(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Return a row's values of the key as texts; a missing number is empty."""
        return tuple("" if pd.isna(row[name]) else str(row[name]) for name in self.key)

    def has(self, row: Mapping[str, Any]) -> bool:
        """True if there is a row of this key."""
        return self.key_of(row) in self.keys

    def add(self, *rows: Mapping[str, Any]) -> None:
        """Add rows, and write the files."""
        self.rows += map(dict, rows)
        self.keys |= set(map(self.key_of, rows))
        self.write()

    def write(self) -> None:
        """Write the files, each atomically."""
        frame = pd.DataFrame(self.rows)
        self.table.parent.mkdir(parents=True, exist_ok=True)
        if self.parquet is not None:
            write_file(self.parquet, partial(frame.to_parquet, index=False))
            frame = frame.drop(columns=[name for name in frame if isinstance(frame[name].iloc[0], bytes)])
        write_file(self.table, partial(frame.to_csv, index=False))


def measure(rows: Rows, cells: Cells, say: Callable[[str], object] = print) -> pd.DataFrame:
    """Make the rows of each cell that has none, and return all rows of the file, which are in the order of the cells.

    A line tells the progress, at most every 20 seconds.
    """
    every: dict[tuple[str, ...], Callable[[], Iterable[Mapping[str, Any]]]] = {}
    for key, make in cells:
        every.setdefault(rows.key_of(key), make)
    order = {key: place for place, key in enumerate(every)}
    missing = [key for key in every if key not in rows.keys]
    begun = said = time.monotonic()
    for done, key in enumerate(missing, start=1):
        rows.rows += map(dict, every[key]())
        rows.rows.sort(key=lambda row: order.get(rows.key_of(row), -1))
        rows.keys.add(key)
        rows.write()
        if (now := time.monotonic()) - said >= SECONDS or done == len(missing):
            said, left = now, (now - begun) / done * (len(missing) - done) / 60
            say(f"{rows.table.name}: {done} of {len(missing)} cells, about {left:.0f} min left")
    return pd.read_csv(rows.table)


def fill(page: Path, tables: Mapping[str, Sequence[str]], command: str) -> None:
    """Write each table's lines between its marks; raises BadInput if a mark is missing, and then changes nothing."""
    text = page.read_text(encoding="utf-8")
    for name, lines in tables.items():
        begin, end = f"<!-- {name}: written by {command} -->", f"<!-- end of {name} -->"
        before, mark, rest = text.partition(begin)
        if not mark or end not in rest:
            raise BadInput(f"{page.name} has no marks for '{name}'. Add {begin} and {end}.")
        text = "\n".join((before + begin, *lines, end + rest.partition(end)[2]))
    page.write_text(text, encoding="utf-8")


def store(name: str, result: Mapping[str, Any], lines: Sequence[str], results: Path, *pages: Path) -> None:
    """Write a measurement as JSON, and print its table; the usual folder's table also goes to README.md and `pages`."""
    results.mkdir(parents=True, exist_ok=True)
    (results / f"{name.replace('-', '_')}.json").write_text(json.dumps(result, indent=1) + "\n")
    for page in (README, *pages) if results.resolve() == RESULTS else ():
        fill(page, {name.replace("-", " "): lines}, f"python -m benchmarks {name}")
    print("\n".join(lines))


def verdict(value: float, target: float) -> str:
    """Return the target, with "met" or "missed" for a value that should be no larger."""
    return f"{target:g}, {'met' if value <= target else 'missed'}"


def machine() -> dict[str, Any]:
    """Return processor, cores, and the machine's current load."""
    about = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").is_file() else []
    names = [line.split(":", 1)[1].strip() for line in about if line.startswith("model name")]
    cpu = names[0] if names else platform.processor() or platform.machine()
    return {"cpu": cpu, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
