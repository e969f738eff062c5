"""Define an attempt to break skillviz, and its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pandas as pd

Tries = Callable[[int, Path], Iterator[str]]
"""A function of the number of tries and an empty folder that yields each try's loss in a sentence, "" for none."""

SHOWN = 40  # losses that are printed one by one
COLUMNS = ("promise", "attempt", "form", "tried", "lost", "loss", "seconds", "day", "cores")


@dataclass(frozen=True)
class Promise:
    """One promise; `title` is its text in the table."""

    name: str
    title: str


@dataclass(frozen=True)
class Attempt:
    """One way to break a promise, tried `short` or `long` times; `run` names its function as "module:name".

    If `short` is 0, the short form omits it; an attempt that needs a GPU is omitted if there is none.
    """

    name: str
    promise: str
    tries: str
    """The attempt in words."""
    run: str
    short: int
    long: int
    needs_gpu: bool = False

    def is_of(self, form: str) -> bool:
        """True if a form includes the attempt on this machine."""
        return bool(getattr(self, form)) and (not self.needs_gpu or _has_gpu())

    def function(self) -> Tries:
        """Return the function that yields the tries; some import torch."""
        module, name = self.run.split(":")
        return getattr(import_module(module), name)

    def made(
        self, form: str, work: Path, report: Callable[[str], None],
        until_lost: bool = False, minutes: float | None = None,
    ) -> dict[str, object]:  # fmt: skip
        """Return the row of reliability.csv after all tries, `minutes`, or with `until_lost` the first loss."""
        begun, tried, losses = time.monotonic(), 0, list[str]()
        for loss in self.function()(getattr(self, form), work):
            tried += 1
            if loss:
                losses.append(loss)
                if len(losses) <= SHOWN:
                    report(f"{self.name}: LOST: {loss}")
                if until_lost:
                    break
            if minutes is not None and time.monotonic() - begun > 60 * minutes:
                break
        if not tried:
            losses.append("nothing was tried")
        seconds = time.monotonic() - begun
        report(f"{self.name}: {tried:,} tries, {len(losses):,} lost, {seconds:.0f} s")
        first = losses[0][:300] if losses else ""
        values = (self.promise, self.name, form, tried, len(losses), first, round(seconds, 1), _day(), _cores())
        return dict(zip(COLUMNS, values, strict=True))


def stored(path: Path) -> pd.DataFrame:
    """Return the rows of a results file; empty if there is none."""
    return pd.read_csv(path, keep_default_na=False) if path.is_file() else pd.DataFrame(columns=list(COLUMNS))


def add(row: dict[str, object], path: Path) -> None:
    """Put a row into the results file, in place of the row of the same attempt and form."""
    rows = stored(path)
    others = rows[(rows["attempt"] != row["attempt"]) | (rows["form"] != row["form"])]
    merged = pd.concat([others, pd.DataFrame([row])]) if len(others) else pd.DataFrame([row])
    path.parent.mkdir(parents=True, exist_ok=True)
    merged.to_csv(path, index=False, columns=list(COLUMNS))


def _has_gpu() -> bool:
    from skillviz.models.device import pick  # imports torch

    return pick("auto").type == "cuda"


def _day() -> str:
    return datetime.now(UTC).date().isoformat()


def _cores() -> int:
    from skillviz.studies.cores import cores

    return cores()
