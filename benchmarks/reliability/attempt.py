"""What an attempt to break skillviz is, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pandas as pd

Tries = Callable[[int, Path], Iterator[str]]
"""(how often, an empty folder) -> for each try what was lost, in a sentence; "" where nothing was."""

SHOWN = 40  # losses that are told one by one
COLUMNS = ("promise", "attempt", "form", "tried", "lost", "loss", "seconds", "day", "cores")


@dataclass(frozen=True)
class Promise:
    """One promise: `title` as it stands in the table."""

    name: str
    title: str


@dataclass(frozen=True)
class Attempt:
    """One way to break a promise, `short` or `long` many times; `run` names its function as "module:name".

    Where `short` is 0 the short form leaves it out; one that needs a GPU is left out where there is none.
    """

    name: str
    promise: str
    tries: str
    """What is tried, in words."""
    run: str
    short: int
    long: int
    needs_gpu: bool = False

    def is_of(self, form: str) -> bool:
        """Whether a form tries it on this machine."""
        return bool(getattr(self, form)) and (not self.needs_gpu or _has_gpu())

    def function(self) -> Tries:
        """The function that tries; some import torch."""
        module, name = self.run.split(":")
        return getattr(import_module(module), name)

    def made(
        self, form: str, work: Path, report: Callable[[str], None],
        until_lost: bool = False, minutes: float | None = None,
    ) -> dict[str, object]:  # fmt: skip
        """The row of reliability.csv after all tries, or those made in `minutes`; with `until_lost` after the first
        that lost something."""
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
    """The rows of a results file; empty where there is none."""
    return pd.read_csv(path, keep_default_na=False) if path.is_file() else pd.DataFrame(columns=list(COLUMNS))


def add(row: dict[str, object], path: Path) -> None:
    """Puts a row into the results file, in place of the one of the same attempt and form."""
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
