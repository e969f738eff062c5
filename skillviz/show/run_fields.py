"""Any two fields of runs against each other, one point per run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.plots.run_fields import run_fields
from skillviz.show.briefs import RunBrief, run_labels
from skillviz.show.exhibit import Exhibit, drawn_once


@dataclass(frozen=True)
class Field:
    """A number of a run: its title with its unit, its value, and True for a log scale."""

    title: str
    of: Callable[[RunBrief], float | None]
    is_log: bool = False

    @property
    def axis(self) -> str:
        """The title of its axis."""
        return f"{self.title} (log scale)" if self.is_log else self.title


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


NAME = "run_fields"
FIELDS = {
    "size": Field("region, % of the parameters", lambda one: 100 * one.share, is_log=True),
    "score": Field(
        "graft, % (task metric)", lambda one: _percent(one.grafted) if metric_row(one.metric).unit == "%" else None
    ),
    "finetuned": Field(
        "fine-tuned, % (task metric)",
        lambda one: _percent(one.finetuned_score) if metric_row(one.metric).unit == "%" else None,
    ),
    "recovered": Field("share of the gain, %", lambda one: _percent(one.recovered)),
    "ece": Field("ECE of the graft, %", lambda one: _percent(one.ece)),
    "gain": Field("gain of the graft", lambda one: one.factor, is_log=True),
    "seconds": Field("computing, s", lambda one: one.seconds, is_log=True),
    "seed": Field("mask seed", lambda one: float(one.seed)),
}
"""The fields that can be chosen, by their names in the address."""


def run_points(briefs: Sequence[RunBrief], x: str, y: str) -> pd.DataFrame:
    """The columns of `plots.run_fields` for these runs."""
    names = run_labels(briefs)
    rows = [(one.id, names[one.id], one.localizer, FIELDS[x].of(one), FIELDS[y].of(one)) for one in briefs]
    return pd.DataFrame(rows, columns=["run", "name", "localizer", "x", "y"]).astype({"x": float, "y": float})


@drawn_once
def scatter(points: pd.DataFrame, x: str, y: str, theme: str) -> Exhibit:
    """Two fields of runs, one mark per run; `points` come from `run_points`."""
    across, up = FIELDS[x], FIELDS[y]
    known = points.dropna(subset=["x", "y"])
    left_out = len(points) - len(known)
    without = f" {formats.counted(left_out, 'run')} without one of the two {'is' if left_out == 1 else 'are'} left out."
    return Exhibit(
        name=NAME,
        title="Runs by two of their numbers",
        figure=run_fields(points, across.axis, up.axis, is_log=(across.is_log, up.is_log), theme=theme),
        reads=f"each mark is a run. Runs differ in more than these two numbers, so a trend need not be a cause."
        f"{without if left_out else ''}",
        alt=f"{up.title} against {across.title} of {formats.counted(len(known), 'run')}.",
        table=points.rename(columns={"x": across.title, "y": up.title}),
    )
