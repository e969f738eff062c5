"""The interpolation page's controls: where on the way, how large a region, which other task, which metric."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.core.interpolate import PATHS
from skillviz.core.metrics import metric_heading, metric_names
from skillviz.plots.interpolation import path_style
from skillviz.runs.run import RANKING, Run
from skillviz.show import interpolation as words
from skillviz.show import text
from skillviz.show.glossary import about
from skillviz.show.interpolation import EXACT, NEAREST, STORED
from skillviz.show.interpolation_grid import GRAFT, Grid, estimate, of_run, point_of, with_edges
from skillviz.ui import cache, cards, controls, live, page
from skillviz.ui.other_tasks import offered

NONE = "none"
CUTS = 13  # sizes offered beside the stored ones, where the models are asked
TRACED = 500  # examples that a path is traced on
HEADINGS = {"wise-ft": "#### :orange[● WiSE-FT]", "wise-graft": "#### :green[◆ WiSE-Graft]"}

Point = tuple[pd.DataFrame, pd.DataFrame]


@dataclass(frozen=True)
class Choice:
    """What the reader chose. `inside` and `outside` are data sets, the latter None where there is none; `task` is the
    name or file by which the worker knows it."""

    alpha: float
    size: int
    metric: str
    inside: str
    outside: str | None
    task: str | None
    exact: bool

    @property
    def datasets(self) -> list[str]:
        """The data sets that are shown."""
        return [self.inside] if self.outside is None else [self.inside, self.outside]

    @property
    def headline(self) -> str:
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
        outside, task = _outside(run)
    with right:
        metric = controls.segments("metric", "Charts show", metrics(run), metrics(run)[0], shown=metric_heading)
    return Choice(alpha / 100, size, metric, run.datasets[0], outside, task, exact)


def metrics(run: Run) -> list[str]:
    """The metrics that are shown, the task's own first."""
    return metric_names(run.record.metric)


def _outside(run: Run) -> tuple[str | None, str | None]:
    """The other data set, and its name or file: those stored, then those that the models can be asked about."""
    stored = {transfer.name: transfer.named or transfer.name for transfer in run.record.transfers}
    live = {row.name: row for row in offered(run) if row.fits and row.name not in run.datasets}
    titles = {name: name for name in stored} or {NONE: "none: this run was scored on no other task"}
    titles |= {name: f"{row.shown}: not stored, ask the models" for name, row in live.items()}
    options = list(titles)
    chosen = controls.select("ood", "Out of distribution", options, options[0], shown=titles.get, help=about("ood"))
    return None if chosen == NONE else chosen, stored.get(chosen) or (live[chosen].named if chosen in live else None)


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
    titles = {size: f"{formats.share(size / d)}{', stored' if size in stored else ''}" for size in options}
    return controls.steps(
        "cut", "Region size of WiSE-Graft", options, main, shown=titles.__getitem__, help=about("size")
    )


@dataclass(frozen=True)
class ShownPoints:
    """The lines and chosen points (`current`), the chosen points' histograms, and a sentence on each one's source."""

    points: pd.DataFrame
    bins: pd.DataFrame
    sources: dict[tuple[str, str], str]

    def point(self, dataset: str, path: str) -> pd.DataFrame:
        """The rows of the chosen point."""
        is_on_path = (self.points["dataset"] == dataset) & (self.points["path"] == path)
        return self.points[is_on_path & self.points["current"]]


def grid_of(run: Run) -> Grid:
    """What the run knows between its models; explains and stops where it was not scored on a test set."""
    page.scores(run, "test")
    stored = page.table(run, "interpolation", needed=False)
    with page.explained():
        bins = page.table(run, "interpolation_bins", needed=False)
        return of_run(run, stored, bins, partial(cache.predictions, run))


def traced(run: Run, choice: Choice, grid: Grid) -> Grid:
    """The grid; with both ways traced by the models where nothing between the ends is stored and the reader asks."""
    lacking = [name for name in choice.datasets if name not in grid.between]
    if not lacking:
        return grid
    st.info(
        f"Nothing between the models is stored on {formats.listed([text.plain(name) for name in lacking])}: only what "
        "the run knows of the ends is drawn. The last box of this page has the command that stores it; or ask the "
        "models, for one point by the switch above, for both ways by this one.",
        icon=":material/timeline:",
    )
    if controls.switch("trace", f"Trace both ways with the models, on up to {TRACED} examples", False):
        for name in lacking:
            arguments: dict[str, Any] = {"task": choice.task} if name == choice.outside else {}
            answer = live.ask(run, "wise_grid", topic=f"trace.{name}", sample=TRACED, **arguments)
            if answer is None:
                return grid
            grid = grid.traced(answer)
    return grid


def shown(run: Run, choice: Choice, grid: Grid) -> ShownPoints:
    """The lines, and the chosen point of each path on each data set: stored, asked of the models, or the nearest."""
    points, bins, sources, asks = [], [], {}, choice.exact
    for dataset in choice.datasets:
        for path in PATHS:
            nearest = grid.nearest(dataset, path, choice.size, choice.alpha)
            wanted = (choice.size if path == GRAFT else None, choice.alpha)
            is_known = nearest is not None and nearest[0] == wanted[0] and abs(nearest[1] - wanted[1]) < 1e-9
            is_exact, on = is_known and dataset not in grid.traced_on, grid.traced_on.get(dataset)
            live_rows = _live_point(run, choice, dataset, path) if asks and not is_exact else None
            asks = asks and (is_exact or live_rows is not None)  # what stands in the way is said once
            kind, place = (EXACT, wanted) if live_rows else (STORED if is_known else NEAREST, nearest)
            if nearest is not None:
                points.append(grid.at("points", dataset, path, nearest[0]).assign(current=False))
                live_rows = live_rows or (
                    grid.at("points", dataset, path, *nearest),
                    grid.at("bins", dataset, path, *nearest),
                )
            if live_rows is not None and place is not None:
                points.append(live_rows[0].assign(current=True))
                bins.append(live_rows[1])
                sources[dataset, path] = words.source(kind, path, *place, run.record.d, on)
    return ShownPoints(pd.concat(points, ignore_index=True), with_edges(pd.concat(bins, ignore_index=True)), sources)


def numbers(run: Run, choice: Choice, points: ShownPoints) -> None:
    """The chosen point of both paths on each data set: accuracy, ECE and NLL with their intervals."""
    for place, dataset in zip(st.columns(len(choice.datasets)), choice.datasets, strict=True):
        with place.container(border=True, height="stretch"):
            st.markdown(f"### {'In' if dataset == choice.inside else 'Out of'} distribution")
            st.caption(text.plain(dataset))
            for path in PATHS:
                _point_numbers(run, dataset, path, points)


def levels(run: Run, metric: str) -> dict[str, float]:
    """Chance, which is one number for all data sets of the same labels."""
    return {"chance": 1 / len(run.labels)} if metric == "accuracy" and run.labels else {}


def no_other() -> None:
    """In place of the trade-off, where there is no other data set."""
    with st.container(border=True, height="stretch"):
        st.markdown("### In and out of distribution")
        st.markdown(
            "This run was scored on its own task alone, so there is no trade-off to draw. Choose another task above "
            "to ask the models about it, or make the run again with `--also TASK` (last box of this page)."
        )


def paper(run: Run, choice: Choice, grid: Grid) -> None:
    """What the paper says, where this page departs from it, and how to make what is missing."""
    with st.expander("What the paper does, and where this page departs from it"):
        st.markdown(words.PAPER)
        st.markdown("\n".join(f"- {line}" for line in words.deviations(run.record)))
    if choice.outside not in run.datasets or not run.spec.interpolation:
        with st.expander("The command that stores the points between the models"):
            st.markdown("`--also` takes any task with the same labels, by name or file, and may be repeated.")
            st.code(words.missing(run.record), language="bash", wrap_lines=True)


def _point_numbers(run: Run, dataset: str, path: str, points: ShownPoints) -> None:
    rows = points.point(dataset, path)
    st.markdown(HEADINGS[path])
    if rows.empty:
        st.caption(f"{path_style(path).title} is not stored here. Switch on exact values to ask the models.")
        return
    with st.container(horizontal=True, gap="small"):
        for metric in metrics(run):
            cards.estimate(metric, estimate(rows, metric), helps=path == PATHS[0])
    st.caption(points.sources[dataset, path])


def _live_point(run: Run, choice: Choice, dataset: str, path: str) -> Point | None:
    """The worker's answer for the chosen point."""
    size = choice.size if path == GRAFT else None
    arguments: dict[str, Any] = {"path": path, "alpha": choice.alpha}
    if size is not None and size != run.record.size:
        arguments["region"] = {"run": run.id, "size": size}
    if dataset == choice.outside:
        arguments["task"] = choice.task
    answer = live.ask(run, "wise", topic=f"wise.{path}.{dataset}", **arguments)
    return None if answer is None else point_of(answer, dataset, path, size, choice.alpha)
