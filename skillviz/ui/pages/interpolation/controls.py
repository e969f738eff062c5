"""The interpolation page's controls: where on the way, how large a region, which other task, which metric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

from skillviz.core import formats
from skillviz.core.metrics import metric_heading, with_own
from skillviz.runs.run import RANKING, Run
from skillviz.show.glossary import about
from skillviz.show.interpolation_grid import Grid
from skillviz.ui import controls
from skillviz.ui.other_tasks import Offered, offered

NONE = "none"
CUTS = 13  # sizes offered beside the stored ones, where the models are asked


@dataclass(frozen=True)
class Choice:
    """What the reader chose. `inside` and `outside` are data sets, the latter None where there is none; `named` is
    how the worker is told of it."""

    alpha: float
    size: int
    metric: str
    inside: str
    outside: str | None
    named: str | None
    exact: bool

    @property
    def datasets(self) -> list[str]:
        """The data sets that are shown."""
        return [self.inside] if self.outside is None else [self.inside, self.outside]

    @property
    def judged(self) -> str:
        """The data set that the page's sentence is about."""
        return self.outside or self.inside


def controls_of(run: Run, grid: Grid) -> Choice:
    """Draws the controls and returns what they say."""
    left, middle, right = st.columns(3, vertical_alignment="bottom")
    with left:
        alpha = controls.whole("alpha", "Way from the pre-trained model, %", 0, 100, 50, help=about("wise"))
    with middle:
        size = _size(run, grid)
    with right:
        exact = controls.switch(
            "exact",
            "Exact values at this point",
            False,
            help="Off, the nearest stored point is shown at once. On, the models are asked for the very point that "
            "is chosen, which needs their weights on this machine.",
        )
    left, right = st.columns([2, 1], vertical_alignment="bottom")
    with left:
        outside, named = _outside(run)
    with right:
        metric = controls.segments("metric", "Charts show", metrics(run), metrics(run)[0], shown=metric_heading)
    return Choice(alpha / 100, size, metric, run.datasets[0], outside, named, exact)


def metrics(run: Run) -> list[str]:
    """The metrics that are shown, the task's own first."""
    own = run.record.metric
    return with_own(own)


def _outside(run: Run) -> tuple[str | None, str | None]:
    """The other data set, and how it is asked for: those that are stored, then those that the models can be asked."""
    stored = {transfer.name: transfer.named or transfer.name for transfer in run.record.transfers}
    live = {row.name: row for row in offered(run) if row.fits and row.name not in run.datasets}
    options = [*stored, *([] if stored else [NONE]), *live]
    chosen = controls.select(
        "ood", "Out of distribution", options, options[0], shown=lambda name: _title(name, live), help=about("ood")
    )
    return None if chosen == NONE else chosen, stored.get(chosen) or (live[chosen].named if chosen in live else None)


def _title(name: str, live: dict[str, Offered]) -> str:
    if name == NONE:
        return "none: this run was scored on no other task"
    return f"{live[name].shown}: not stored, ask the models" if name in live else name


def _size(run: Run, grid: Grid) -> int:
    """The region size chosen: one of those stored, or a cut of the ranking."""
    main = run.record.size or 1
    stored = grid.sizes() or [main]
    most = max(*run.record.sizes, main)
    cuts = np.geomspace(max(1, min(stored) / 10), most, CUTS).round() if RANKING in run.files else np.empty(0)
    options, d = sorted({*stored, main, *map(int, cuts)}), run.record.d or 1
    if len(options) == 1:
        st.caption(
            f"Region: {formats.count(main)} entries ({formats.share(run.record.share)}), the only size of this run."
        )
        return main
    label = "Region size of WiSE-Graft"
    return controls.steps("cut", label, options, main, shown=lambda s: _step(s, d, s in stored), help=about("size"))


def _step(size: int, d: int, is_stored: bool) -> str:
    return f"{formats.share(size / d)}{', stored' if is_stored else ''}"
