"""A finished run in a notebook: its summary card, and the figures of its pages by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

import plotly.graph_objects as go

from skillviz.analysis.readable_table import as_stored, html
from skillviz.errors import BadInput
from skillviz.plots.restyle import with_dark_marks
from skillviz.plots.theme import check_theme
from skillviz.runs.run import Run as StoredRun
from skillviz.runs.store import Store, library, shipped_root
from skillviz.runs.store import open_run as open_stored
from skillviz.show import beyond, sentences
from skillviz.show.briefs import brief_of, headline_scores, headline_split, run_labels, usual
from skillviz.show.exhibit import Exhibit
from skillviz.show.report import sections
from skillviz.show.report.page import inline
from skillviz.show.report.sections import Charts, Section
from skillviz.studies.store import StudyFolder, list_studies


class Plots:
    """The figures of one run, page by page.

    Each method returns a plotly figure of its page: the first one, or the one with this `name`; `names()` lists them.
    `theme` is `light` or `dark`. Raises BadInput for another name, and if the run stored nothing to draw.
    """

    def __init__(self, run: StoredRun) -> None:
        self._run = run

    def __repr__(self) -> str:
        return f"Plots({', '.join(PAGES)}; names() lists the figures)"

    def overview(self, name: str = "", theme: str = "light") -> go.Figure:
        """The models' scores, or the search's progress."""
        return self._figure("overview", name, theme)

    def region(self, name: str = "", theme: str = "light") -> go.Figure:
        """The region by layer and module."""
        return self._figure("region", name, theme)

    def sparsity(self, name: str = "", theme: str = "light") -> go.Figure:
        """Scores by region size, for the runs of the same pair, task and data, without study variants."""
        return self._figure("sparsity", name, theme)

    def calibration(self, name: str = "", theme: str = "light") -> go.Figure:
        """Confidence and reliability."""
        return self._figure("calibration", name, theme)

    def examples(self, name: str = "", theme: str = "light") -> go.Figure:
        """Predictions of graft and fine-tuned model, example by example and class by class."""
        return self._figure("examples", name, theme)

    def interpolation(self, name: str = "", theme: str = "light") -> go.Figure:
        """Scores along the paths from the base to the fine-tuned model and to the graft."""
        return self._figure("interpolation", name, theme)

    def transfer(self, name: str = "", theme: str = "light") -> go.Figure:
        """Scores on other tasks."""
        return self._figure("transfer", name, theme)

    def names(self) -> list[str]:
        """The names of all figures of the run, each after the method that draws it: `region.map` is `region("map")`."""
        return [f"{page}.{name}" for page in PAGES for name, _ in self._exhibits(page, "light")]

    def _figure(self, page: str, name: str, theme: str) -> go.Figure:
        check_theme(theme)
        known = []
        for one, exhibit in self._exhibits(page, theme):
            if not name or one == name:
                return go.Figure(with_dark_marks(exhibit.figure))  # an exhibit is shared, a reader's copy is not
            known.append(one)
        if not known:
            raise BadInput(f"run {self._run.id} stored nothing that plot.{page} draws; plot.names() lists what it has.")
        raise BadInput(f"'{name}' is not a figure of plot.{page}; known: {', '.join(known)}.")

    def _exhibits(self, page: str, theme: str) -> Iterator[tuple[str, Exhibit]]:
        """Each exhibit of a page with its name; a second one with the same name is `name_2`."""
        times: Counter[str] = Counter()
        for section in self._sections(page):
            for part in section.parts:
                for make in part.makes if isinstance(part, Charts) else ():
                    exhibit = make(theme)
                    times[exhibit.name] += 1
                    count = times[exhibit.name]
                    yield exhibit.name if count == 1 else f"{exhibit.name}_{count}", exhibit

    def _sections(self, page: str) -> Sequence[Section]:
        if page == "sparsity":
            runs = {run.id: run for run in (*library().list(), *Store(self._run.root).list())}
            briefs = [brief_of(run, is_of_user=run.root != shipped_root()) for run in runs.values()]
            return [sections.sparsity(self._run, [runs[brief.id] for brief in usual(briefs, (self._run.id,))])]
        section_or_list = PAGES[page](self._run)
        return [section_or_list] if isinstance(section_or_list, Section) else section_or_list


PAGES: dict[str, Callable[..., Section | list[Section]]] = {
    "overview": sections.overview,
    "region": sections.region,
    "sparsity": sections.sparsity,
    "calibration": sections.calibration,
    "examples": sections.by_example,
    "interpolation": sections.interpolation,
    "transfer": sections.transfer,
}
"""The sections of the report, by the method that draws their figures."""


class Run(StoredRun):
    """A finished run that draws its pages' figures (`run.plot.region()`). In a cell it is displayed as its card."""

    @classmethod
    def of(cls, run: StoredRun) -> Run:
        """The stored run, with the display and figures for notebooks."""
        return cls(run.path, run.record)

    @property
    def plot(self) -> Plots:
        """Its figures."""
        return Plots(self)

    def _repr_html_(self) -> str:
        """The summary card: the run's name, its finding, and the models' scores."""
        brief, scores = brief_of(self, is_of_user=True), headline_scores(self.record)
        name = f"<h4>{escape(run_labels([brief])[self.id])}</h4>"
        if scores is None:
            return f"<div>{name}<p>This run stored no scores.</p><code>{escape(self.id)}</code></div>"
        split = headline_split(self.record)
        finding = inline(f"{sentences.overview(self.record, scores)} {beyond.line(self.record, split)}")
        basis = inline(sentences.basis(scores, self.record, split))
        table = html(as_stored(sections.scores_table(self.record, scores)), "Scores with their 95% intervals")
        return f"<div>{name}<p>{finding}</p>{table}<p>{basis}</p><code>{escape(self.id)}</code></div>"


def open_study(name: str, runs_dir: Path | str | None = None) -> StudyFolder:
    """The stored study of this name, whose tables `study.table(name)` reads; raises BadInput."""
    studies = {study.name: study for study in list_studies(library(runs_dir))}
    if name not in studies:
        raise BadInput(f"no study '{name}' is stored; there are: {', '.join(studies) or 'none'}.")
    return studies[name]


def open_run(run: str, runs_dir: Path | str | None = None) -> Run:
    """The finished run with this id, unique prefix or folder; raises RunNotFound or CorruptRun."""
    return Run.of(open_stored(run, runs_dir))
