"""The text on a job's card: its settings, its place in the queue, its steps, the reason of a failure. No widgets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.errors import advice
from skillviz.jobs.job import Job, JobProgress
from skillviz.jobs.words import PHASES
from skillviz.runs.record import RunRecord
from skillviz.runs.spec import RunSpec
from skillviz.show import text
from skillviz.show.briefs import open_label
from skillviz.tasks.registry import TASKS
from skillviz.tasks.uploaded import FILE

# color and icon of a status
STATUS = {
    "queued": ("gray", ":material/hourglass_empty:"),
    "running": ("blue", ":material/play_arrow:"),
    "finished": ("green", ":material/check:"),
    "failed": ("red", ":material/error:"),
    "cancelled": ("orange", ":material/cancel:"),
    "stopped": ("orange", ":material/pause_circle:"),
    "unknown": ("orange", ":material/help:"),
}
COLUMNS = ("localizer", "step", "loss", "size", "added", "removed")
MOST_POINTS = 60
REDRAWN = 3.0  # seconds between redraws of a growing chart


def label(record: RunRecord) -> str:
    """The label of an unfinished run, in the form that the run bar uses for finished runs."""
    return open_label(record, record.task.name if record.task else task_word(record.spec.task))


def task_word(task: str) -> str:
    """A task's name, derived from its source: `sst2`, `reviews` of a file, the folder of a task.yaml."""
    path = PurePosixPath(task)
    return path.parent.name or path.stem if path.name == FILE else path.stem


def models(job: Job) -> str:
    """The models of a job and its device, in Markdown."""
    pair = f"{text.last_part(job.spec.base)} → {text.last_part(job.spec.finetuned)}"
    return text.plain(f"{pair} · {job.slot}")


def waits(job: Job) -> str:
    """The number of jobs ahead of a queued job, as a sentence."""
    if not job.position:
        return f"Starting; **{job.slot}** is free for it."
    verb = "is" if job.position == 1 else "are"
    return f"Waits for **{job.slot}**: {formats.counted(job.position, 'job')} {verb} ahead of it."


def share(progress: JobProgress) -> float:
    """The filled share of the progress bar: the search takes most of it, the phases before and after it a little."""
    place = list(PHASES).index(progress.phase) if progress.phase in PHASES else 0
    if progress.phase == "search":
        return 0.06 + 0.72 * min(1.0, progress.share or 0.0)
    return (0.0, 0.03, 0.06, 0.8, 0.87, 0.97)[place] + 0.1 * (progress.scored or 0.0)


def failure(kind: str) -> tuple[str, str]:
    """The title of a class of failures, and advice for this page."""
    row = advice(kind)
    return row.title, row.page_hint


def form_of(spec: RunSpec) -> dict[str, str]:
    """The query parameters that open the form with these choices."""
    known = spec.task in TASKS
    fields: dict[str, Any] = {
        "from": "own", "base": spec.base, "finetuned": spec.finetuned, "source": "known" if known else "file",
        "known" if known else "file": spec.task, "readout": spec.readout or "auto", "method": spec.localizer,
        "size": ",".join(spec.sizes), "seeds": spec.seed, "device": spec.device, "dtype": spec.dtype,
        "autocast": spec.autocast or "as the weights", "k-shot": spec.k_shot, "data-seed": spec.data_seed,
        "max-train": spec.max_train, "max-validation": spec.max_validation, "max-test": spec.max_test,
        "also": ",".join(spec.others) or None, "interpolation": "yes" if spec.interpolation else "no", "trial": "no",
        "lean": "yes" if spec.lean else "no", "cuda-graphs": "yes" if spec.cuda_graphs else "no",
        "nulls": spec.nulls, "null-draws": spec.null_draws,
        "gain": spec.gain if isinstance(spec.gain, str) else f"{spec.gain:.12g}",
    }  # fmt: skip
    options = {"steps": spec.steps, "batch_size": spec.batch_size, **spec.options}
    fields |= {f"{spec.localizer}.{name}": _as_typed(value) for name, value in options.items() if value is not None}
    return {f"new.{name}": "none" if value is None else str(value) for name, value in fields.items()}


def _as_typed(value: Any) -> Any:
    """An option as a user types it: an object as JSON, a list with commas."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else value


@dataclass
class Spans:
    """The steps of one search in spans of equal width, few enough that a long search takes little memory."""

    width: int = 1
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add(self, event: dict[str, Any]) -> None:
        """Adds one step. A step repeated after a resume replaces its earlier version and everything after it."""
        number, span = (event["step"] - 1) // self.width, {name: event[name] for name in COLUMNS[1:]}
        while self.rows and (next(reversed(self.rows)) > number or self._last["step"] >= event["step"]):
            self.rows.popitem()
        span |= {"loss": event["loss"] or 0.0, "losses": int(event["loss"] is not None)}
        self.rows[number] = _joined(self.rows[number], span) if number in self.rows else span
        if len(self.rows) > 2 * MOST_POINTS:
            self._widen()

    @property
    def _last(self) -> dict[str, Any]:
        return self.rows[next(reversed(self.rows))]

    def _widen(self) -> None:
        before, self.rows, self.width = self.rows, {}, 2 * self.width
        for number, span in before.items():
            half = self.rows.get(number // 2)
            self.rows[number // 2] = _joined(half, span) if half else span

    def frame(self, localizer: str) -> pd.DataFrame:
        """The spans as a history table: last step and size, mean loss, and summed switches of each span."""
        rows = [
            {**{name: span[name] for name in COLUMNS[1:]}, "loss": span["loss"] / (span["losses"] or np.nan)}
            for span in self.rows.values()
        ]
        return pd.DataFrame(rows).assign(localizer=localizer)[list(COLUMNS)]


def _joined(one: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    return {**later, **{name: one[name] + later[name] for name in ("loss", "losses", "added", "removed")}}


@dataclass
class Steps:
    """The search steps of a job so far; `place` is the byte offset at which reading of its events continues."""

    place: int = 0
    searches: dict[int, Spans] = field(default_factory=dict)
    titles: dict[int, str] = field(default_factory=dict)
    drawn: tuple[float, pd.DataFrame, str] | None = None

    def add(self, events: Sequence[dict[str, Any]], place: int) -> None:
        """Adds events; if a step is repeated after a resume, its later event counts."""
        self.place = place
        for event in events:
            if event.get("phase") == "search" and "step" in event:
                number, of = event["search"], event.get("searches", 1)
                self.searches.setdefault(number, Spans()).add(event)
                which = f" ({number} of {of} searches)" if of > 1 else ""
                self.titles[number] = f"The search for {event['target']:,} entries{which}"

    def drawing(self, localizer: str, now: float) -> tuple[pd.DataFrame, str]:
        """The result of `frame`, reused for some seconds, because a browser takes longer to draw a chart than a bar."""
        if self.drawn is None or now - self.drawn[0] >= REDRAWN:
            self.drawn = (now, *self.frame(localizer))
        return self.drawn[1:]

    def frame(self, localizer: str) -> tuple[pd.DataFrame, str]:
        """The steps of the current search as a history table, and the title of the search."""
        if not self.searches:
            return pd.DataFrame(columns=list(COLUMNS)), ""
        last = max(self.searches)
        return thinned(self.searches[last].frame(localizer)), self.titles[last]


def thinned(history: pd.DataFrame, most: int = MOST_POINTS) -> pd.DataFrame:
    """The history in at most `most` rows.

    Each row has the last step and size of its neighboring steps, their mean loss and the sum of their switches."""
    each = -(-len(history) // most) if len(history) else 1
    if each < 2:
        return history
    rules = {"localizer": "last", "step": "last", "loss": "mean", "size": "last", "added": "sum", "removed": "sum"}
    return history.groupby(np.arange(len(history)) // each).agg(rules).reset_index(drop=True)
