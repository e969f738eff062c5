"""The interpolation page: the point on the path, the region size, the other task and the metric."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.core import formats
from skillviz.core.interpolate import LOWEST, PATHS
from skillviz.core.metrics import metric_heading, metric_names
from skillviz.plots.interpolation import path_style
from skillviz.runs.run import RANKING, Run
from skillviz.show import gain, measures, sentences, text
from skillviz.show import interpolation as words
from skillviz.show.glossary import about
from skillviz.show.interpolation import EXACT, STORED
from skillviz.show.interpolation_grid import GRAFT, Grid, estimate, of_run, point_of, with_edges
from skillviz.tasks.readable_names import readable
from skillviz.ui import cache, cards, controls, live, page, show_code
from skillviz.ui.chart import show, theme
from skillviz.ui.chip import chip_text
from skillviz.ui.other_tasks import offered
from skillviz.ui.page import missing

NONE = "none"
CUTS = 13  # sizes offered beside the stored ones, if the models compute points
PERCENTS = (round(100 * LOWEST), 400)  # the part of the path on which the models can compute points
TRACED = 500  # examples on which a path is traced
HEIGHT = words.HEIGHT
NO_PATH = f"The models can score both paths now, on up to {TRACED} examples, if their weights are on this machine."
NO_TASK = (
    "There is no trade-off to draw: this run was scored on its own task alone. Choose another task in *Settings* to "
    "compute it live, or run this command:"
)
HEADINGS = {"wise-ft": "### :orange[● WiSE-FT]", "wise-graft": "### :green[◆ WiSE-Graft]"}

Point = tuple[pd.DataFrame, pd.DataFrame]


@dataclass(frozen=True)
class PathSettings:
    """The user's choices except the point.

    `inside` and `outside` are data sets, `outside` None if there is none; `task` is its name or file for the worker."""

    metric: str
    inside: str
    outside: str | None
    task: str | None
    exact: bool
    place: DeltaGenerator

    @property
    def datasets(self) -> list[str]:
        """The data sets that are shown."""
        return [self.inside] if self.outside is None else [self.inside, self.outside]

    @property
    def headline(self) -> str:
        """The data set of the page's headline."""
        return self.outside or self.inside


@dataclass(frozen=True)
class Choice(PathSettings):
    """The choices with the point: the mixing weight, and the entries of WiSE-Graft's region."""

    alpha: float
    size: int


def controls_of(run: Run) -> PathSettings:
    """Draws the controls except the sliders, which are first on the page but depend on the known points."""
    place, settings = st.columns([6, 1], vertical_alignment="bottom")
    with settings.popover("Settings", icon=":material/tune:", width="stretch"):
        outside, task = _outside(run)
        metric = controls.segments("metric", "Metric", metrics(run), metrics(run)[0], shown=metric_heading)
        exact = controls.switch(
            "exact",
            "Compute any point",
            False,
            help="Off: the sliders stop at stored points. On: they stop anywhere, also beyond 100% and below 0%, and "
            "the models compute the point, which needs their weights on this machine.",
        )
    return PathSettings(metric, run.datasets[0], outside, task, exact, place)


def placed(run: Run, asked: PathSettings, grid: Grid) -> Choice:
    """Draws the sliders: only known points, or all points if the models compute them."""
    with asked.place:
        left, right = st.columns([3, 2], vertical_alignment="bottom")
    with left:
        alpha = _alpha(asked, grid)
    with right:
        size = _size(run, asked, grid)
    return Choice(**{each.name: getattr(asked, each.name) for each in fields(asked)}, alpha=alpha, size=size)


def finding(run: Run, choice: Choice, grid: Grid) -> None:
    """Draws the best known point and its verdict against the fine-tuned model."""
    decided, sentence = words.finding(grid, choice.headline, choice.metric, run.record.d)
    help_ = f"{words.PICKED}\n\n{about('wise', 'ood', 'paired')}"
    st.markdown(f"{chip_text(decided)} {sentence}" if decided else sentence, help=help_)
    if gain_words := gain.of_path(run.record, choice.size):
        st.caption(gain_words, help=about("scale"))


def _alpha(asked: PathSettings, grid: Grid) -> float:
    """The chosen mixing weight, as a fraction."""
    label, help_ = "Mixing weight α, % (0: pre-trained, 100: fine-tuned or graft)", about("wise")
    if asked.exact:
        beyond = (
            "Beyond 100% the movement is scaled up, as by a gain. Below 0% it is turned around, which unlearns the "
            "skill (negation, Ilharco et al. 2023)."
        )
        return controls.whole("alpha", label, *PERCENTS, 50, help=f"{help_}\n\n{beyond}") / 100
    known = set.intersection(*(set(grid.points.loc[grid.points["dataset"] == n, "alpha"]) for n in asked.datasets))
    percents = {int(p) if p == int(p) else p: alpha for alpha in sorted(known) for p in [round(100 * alpha, 6)]}
    middle = min(percents, key=lambda percent: (abs(percent - 50), percent))
    return percents[controls.steps("alpha", label, list(percents), middle, help=help_)]


def metrics(run: Run) -> list[str]:
    """The shown metrics, the task's own first."""
    return metric_names(run.record.metric)


def _outside(run: Run) -> tuple[str | None, str | None]:
    """The other data set with its name or file, chosen from stored tasks and tasks that the models can be scored on."""
    stored = {transfer.name: transfer.named or transfer.name for transfer in run.record.transfers}
    live = {row.name: row for row in offered(run) if row.fits and row.name not in run.datasets}
    titles = {name: readable(name) for name in stored} or {NONE: "none scored yet"}
    titles |= {name: f"{row.shown}: not stored, compute live" for name, row in live.items()}
    options = list(titles)
    chosen = controls.select("ood", "Out of distribution", options, options[0], shown=titles.get, help=about("ood"))
    return None if chosen == NONE else chosen, stored.get(chosen) or (live[chosen].named if chosen in live else None)


def _size(run: Run, asked: PathSettings, grid: Grid) -> int:
    """The chosen region size: a known one, or a cut of the ranking if the models compute points."""
    main = run.record.size or 1
    rows = grid.points[grid.points["dataset"].isin(asked.datasets)]
    stored = sorted({int(size) for size in rows["size"].dropna()}) or [main]
    most = max(*run.record.sizes, main)
    has_cuts = RANKING in run.files and not run.record.gains  # a size in between has no gain
    cuts = np.geomspace(max(1, min(stored) / 10), most, CUTS).round() if has_cuts else np.empty(0)
    options, d = sorted({*stored, main, *map(int, cuts)} if asked.exact else set(stored)), run.record.d or 1
    if len(options) == 1:
        st.caption(f"WiSE-Graft's region: {formats.share(options[0] / d)} ({formats.counted(options[0], 'entry')})")
        return options[0]
    titles = {
        size: f"{formats.share(size / d)}{', stored' if size in stored and asked.exact else ''}" for size in options
    }
    start = main if main in options else options[-1]
    return controls.steps(
        "cut",
        "Region size of WiSE-Graft",
        options,
        start,
        shown=titles.__getitem__,
        help=about("size"),
    )


@dataclass(frozen=True)
class ShownPoints:
    """The lines and the chosen points (`current`), the chosen points' histograms, and each one's source in words."""

    points: pd.DataFrame
    bins: pd.DataFrame
    sources: dict[tuple[str, str], str]

    def point(self, dataset: str, path: str) -> pd.DataFrame:
        """The rows of the chosen point on one path."""
        is_on_path = (self.points["dataset"] == dataset) & (self.points["path"] == path)
        return self.points[is_on_path & self.points["current"]]


def grid_of(run: Run) -> Grid:
    """The run's known points between its models; shows an explanation and stops if it has no test scores."""
    page.stored_scores(run, "test")
    stored = page.stored_table(run, "interpolation", needed=False)
    with page.explained():
        bins = page.stored_table(run, "interpolation_bins", needed=False)
        return cache.computed(("grid",), [run], lambda: of_run(run, stored, bins, partial(cache.predictions, run)))


def traced(run: Run, asked: PathSettings, grid: Grid) -> tuple[PathSettings, Grid]:
    """The choices and known points that can be shown: the models trace both paths if the user presses the button.

    A data set without any known point between the models is left out. Stops if it is the run's own."""
    lacking = [] if asked.exact else [name for name in asked.datasets if name not in grid.between]
    if not lacking:
        return asked, grid
    on = formats.listed(list(map(text.tasks, lacking)))
    place = st.empty()
    with place.container(), missing(f"No points between the models on {on} yet", NO_PATH, "timeline"):
        if controls.press("trace", "Score the paths", of=f"{run.id} {on}", icon=":material/timeline:"):
            for name in lacking:
                arguments: dict[str, Any] = {"task": asked.task} if name == asked.outside else {}
                answer = live.ask(run, "wise_grid", topic=f"trace.{name}", sample=TRACED, **arguments)
                if answer is None:
                    break
                grid = grid.traced(answer)
    if scored := [name for name in lacking if name in grid.between]:
        counts = [f"{formats.counted(grid.traced_on[name], 'example')} of {text.tasks(name)}" for name in scored]
        where = place if scored == lacking else st  # otherwise the card for the missing data set is still above
        where.caption(f"Both paths computed live on {formats.listed(counts)}; not stored with the run.")
    if asked.inside not in grid.between:
        command(run)
        st.stop()
    return (asked if asked.headline in grid.between else replace(asked, outside=None, task=None)), grid


def shown(run: Run, choice: Choice, grid: Grid) -> ShownPoints:
    """The known lines, and the chosen point of each path on each data set, known or computed live.

    Stops if the models do not answer, because an unknown point has no figure.
    """
    points, bins, sources = [grid.points.iloc[:0].assign(current=False)], [grid.bins.iloc[:0]], {}
    for dataset in choice.datasets:
        for path in PATHS:
            size = choice.size if path == GRAFT else None
            rows, counts = (grid.at(table, dataset, path, size, choice.alpha) for table in ("points", "bins"))
            is_known, on = len(rows) > 0, grid.traced_on.get(dataset)
            if dataset in grid.between:
                points.append(grid.at("points", dataset, path, size).assign(current=False))
            if choice.exact and (not is_known or on is not None):
                answer = _live_point(run, choice, dataset, path)
                if answer is None:  # the reason is shown once
                    _leave_exact(run, choice, grid)
                    st.stop()
                (rows, counts), is_known, on = answer, True, None
                sources[dataset, path] = words.source(EXACT, path, size, choice.alpha, run.record.d)
            if is_known:
                points.append(rows.assign(current=True))
                bins.append(counts)
                sources.setdefault((dataset, path), words.source(STORED, path, size, choice.alpha, run.record.d, on))
    return ShownPoints(pd.concat(points, ignore_index=True), with_edges(pd.concat(bins, ignore_index=True)), sources)


def _leave_exact(run: Run, choice: Choice, grid: Grid) -> None:
    """Draws a button for the stored points, or the command that stores some, if a point cannot be computed."""
    if set(choice.datasets) <= set(grid.between):
        st.button(
            "Show the stored points", type="primary", icon=":material/undo:", on_click=controls.forget, args=("exact",)
        )
    else:
        command(run)


def histogram(run: Run, points: ShownPoints, choice: Choice) -> None:
    """Draws the confidence at the chosen point; a card if the task has reference texts."""
    if reason := sentences.no_confidence(run.record):
        missing("Confidence at this point", reason, "block")
        return
    show(words.histogram(points.bins, choice.datasets, theme()), run.id)


def numbers(run: Run, choice: Choice, points: ShownPoints) -> None:
    """Draws the chosen point of both paths on each data set: the metrics of `metric_names`, with intervals."""
    for place, dataset in zip(st.columns(len(choice.datasets)), choice.datasets, strict=True):
        with place.container(border=True, height="stretch"):
            st.markdown(f"## {'In' if dataset == choice.inside else 'Out of'} distribution")
            st.caption(text.tasks(dataset))
            is_alone = len(choice.datasets) == 1  # then the two paths share the page's width
            rows = st.columns(len(PATHS)) if is_alone else [st.container() for _ in PATHS]
            for row, path in zip(rows, PATHS, strict=True):
                with row:
                    _point_numbers(run, dataset, path, points)


def planes(run: Run, choice: Choice, points: pd.DataFrame) -> None:
    """Draws accuracy against calibration error on each data set with known points between the models."""
    known = [name for name in choice.datasets if words.has_plane(points, name)]
    for place, dataset in zip(st.columns(max(len(known), 1)), known, strict=False):
        with place:
            st.markdown(words.nearest_to_corner(points, dataset))
            show(words.plane(points, dataset, "in" if dataset == choice.inside else "out of", theme()), run.id)


def code(run: Run, choice: Choice, grid: Grid) -> None:
    """Draws the code for the figure of both paths; nothing for points computed live, which are not stored."""
    if not choice.exact and not grid.traced_on:
        show_code.show(
            "interpolation", run=run.id, datasets=choice.datasets, metric=choice.metric, size=choice.size,
            alpha=choice.alpha,
        )  # fmt: skip


def levels(run: Run, metric: str) -> dict[str, float]:
    """The chance level, which is one number for all data sets with the same labels."""
    return measures.chance(run.record, "test", metric)


def no_other(run: Run) -> None:
    """Draws the card that replaces the trade-off if there is no other data set; nothing if there can be none."""
    if not run.record.has_classes:
        return
    with missing("No other task scored yet", NO_TASK, "move_up"):
        st.code(words.missing(run.record), language=None, wrap_lines=True)


def paper(run: Run, choice: Choice, grid: Grid) -> None:
    """Draws the paper's result, this page's deviations from it, and the command for missing points."""
    with st.expander("How this compares with the paper"):
        st.markdown(words.PAPER)
        st.markdown("\n".join(f"- {line}" for line in words.deviations(run.record)))
    if choice.outside not in run.datasets or not run.spec.interpolation:
        command(run)


def command(run: Run) -> None:
    """Draws the command that stores the missing points."""
    with st.expander("Store the points with the run", expanded=not run.spec.interpolation):
        if run.record.has_classes:
            st.markdown("`--also` is optional. It adds another task with the same labels: its name or file for `TASK`.")
        st.code(words.missing(run.record), language=None, wrap_lines=True)


def _point_numbers(run: Run, dataset: str, path: str, points: ShownPoints) -> None:
    rows = points.point(dataset, path)
    st.markdown(HEADINGS[path])
    if rows.empty:
        st.caption(f"Not stored at this point of {path_style(path).title}.")
        return
    with st.container(horizontal=True, gap="small"):
        for metric in metrics(run):
            cards.estimate(metric, estimate(rows, metric), helps=path == PATHS[0])
    st.caption(points.sources[dataset, path])


def _live_point(run: Run, choice: Choice, dataset: str, path: str) -> Point | None:
    """The worker's answer for the chosen point; None if there is none."""
    size = choice.size if path == GRAFT else None
    arguments: dict[str, Any] = {"path": path, "alpha": choice.alpha}
    if size is not None and size != run.record.size:
        arguments["region"] = {"run": run.id, "size": size}
    if dataset == choice.outside:
        arguments["task"] = choice.task
    answer = live.ask(run, "wise", topic=f"wise.{path}.{dataset}", **arguments)
    return None if answer is None else point_of(answer, dataset, path, size, choice.alpha)
