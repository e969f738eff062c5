"""The paper page's parts: which table or figure, which study of it, values side by side, verdicts, differences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.show import paper as exhibits
from skillviz.show import text
from skillviz.show.glossary import about
from skillviz.studies.paper.claims import Verdict, main_share
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.experiments import EXPERIMENTS, verdicts
from skillviz.studies.paper.published_values import TABLES, numbers, slips
from skillviz.studies.store import StudyFolder
from skillviz.studies.subject import bases_of, rows_of_base
from skillviz.ui import cache, controls, exports, page, study_choice, study_words
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.paper import table as paper_table
from skillviz.ui.pages.paper import words
from skillviz.ui.pages.paper.table import Selection

SIZES = (
    "The size of the regions that stand here. What 95 % of the gain needs is a size a task: the smallest tried whose "
    "graft gets there, the largest tried where none does; the table says which."
)


@dataclass(frozen=True)
class PaperItem:
    """What is looked at: a table or figure of the paper, its experiment and stored study where there are such."""

    name: str
    experiment: Experiment | None
    study: StudyFolder | None
    tables: dict[str, pd.DataFrame]
    verdicts: tuple[Verdict, ...]

    @property
    def scale(self) -> str | None:
        """The study's scale."""
        return self.study.record.scale if self.study else None

    @property
    def is_table(self) -> bool:
        """Whether published rows stand behind it."""
        return self.name in TABLES


def choose() -> PaperItem:
    """The boxes at the top of the page."""
    titles = words.items()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        default = _default(titles)
        name = controls.select("item", "Table or figure", list(titles), default, shown=titles.get, width=460)
        experiment = EXPERIMENTS.get(name)
        with page.explained():
            stored = study_choice.offered((name,)) if experiment else []
            study = study_choice.choose(stored, "Our study of it") if stored else None
            tables = {table: cache.study_table(study, table) for table in study.tables()} if study else {}
    outcomes = tuple(verdicts(name, tables, study.record.scale if study else None))
    return PaperItem(name, experiment, study, tables, outcomes)


def _default(titles: dict[str, str]) -> str:
    """The first item with a stored study, else Table 2, the main result."""
    stored = {study.record.experiment for study in cache.studies() if study.tables()}
    return "table2" if "table2" in stored else next((name for name in titles if name in stored), "table2")


def summary(item: PaperItem) -> str:
    """The page's sentence."""
    if item.study is None:
        return f"Nothing is stored here for **{text.plain(words.items()[item.name])}**."
    return words.verdict_counts(item.verdicts)


def study(item: PaperItem) -> None:
    """Which study stands beside the paper; where there is none, why, and the command that makes one."""
    if item.study is not None:
        st.caption(study_words.caption(item.study))
        if study_words.is_demo(item.study):
            st.caption(study_words.caution())
        study_choice.links(item.study, "paper")
    elif item.experiment is None:
        st.info(f"There is no experiment of this here. {words.WITHOUT[item.name][1]}")
    else:
        st.info(words.PUBLISHED_ONLY)
        st.code(study_words.commands((item.name,)), language="bash", wrap_lines=True)


def claims(item: PaperItem) -> None:
    """What the paper says, and what the study says of each claim."""
    if item.experiment is None:
        return
    with st.container(border=True):
        st.markdown("### What the paper says, and what comes out here", help=about("verdict", "paired", "discovery"))
        st.markdown(text.plain(item.experiment.finding))
        if item.study is None:
            return
        st.markdown("\n".join(f"- {words.verdict_line(one)}" for one in item.verdicts))
        rows = words.comparison_table(item.verdicts)
        if len(rows):
            with st.expander(f"The {formats.counted(len(rows), 'comparison')} behind this"):
                st.dataframe(rows, hide_index=True, alt="Every comparison behind the verdicts")


def values(item: PaperItem) -> None:
    """Published rows beside ours: a figure of one metric, and the table of all."""
    if not item.is_table:
        return
    selection = _select(item)
    rows = paper_table.rows_beside(selection, item.tables)
    metrics = list(dict.fromkeys(rows["metric"]))
    metric = controls.segments("metric", "Metric", metrics, metrics[0], shown=lambda one: metric_row(one).title)
    marks = paper_table.marks(rows, metric)
    st.caption(words.CAUTION)
    if note := words.unmatched(rows):
        st.caption(note)
    table = paper_table.shown(rows)
    show(exhibits.values(marks, table[rows["metric"] == metric], metric, selection.setting, theme()), item.name)
    with st.container(border=True):
        st.markdown("### All values", help=about("published"))
        st.dataframe(table, hide_index=True, alt="Published values, ours, and their difference")
        stem = exports.file_name("paper", item.name, item.study.name if item.study else "")
        make = partial(exports.csv, rows)
        st.download_button(
            "Table (CSV)",
            make,
            f"{stem}.csv",
            "text/csv",
            key="paper.csv",
            icon=":material/download:",
            on_click="ignore",
        )


def _select(item: PaperItem) -> Selection:
    """The setting and the sizes that are compared."""
    settings, shares = paper_table.settings(item.name), paper_table.shares(item.name)
    scores = item.tables.get("scores", pd.DataFrame())
    with st.container(horizontal=True, vertical_alignment="bottom"):
        base = study_choice.choose_base(bases) if len(bases := bases_of(scores)) > 1 else None
        ours = paper_table.our_shares(scores if base is None else rows_of_base(scores, base))
        setting, share, ours_share = settings[0], shares[0] if shares else None, None
        if len(settings) > 1:
            setting = controls.select("shots", "Published: training data", settings, setting, width=220)
        if len(shares) > 1:
            share = controls.select(
                "published-size", "Published: region size", shares, share, shown=formats.share, width=220
            )
        if ours and shares:
            main = main_share(item.scale) or ours[0]
            nearest = min(ours, key=lambda one: abs(one - main))
            offered = [*ours, *([paper_table.NEEDED] if paper_table.needed(item.tables) else [])]
            ours_share = controls.select(
                "size", "Here: region size", offered, nearest, shown=_size, width=260, help=SIZES
            )
    return Selection(item.name, setting, share, ours_share, base)


def _size(share: float) -> str:
    return f"what 95{formats.SPACE}% of the gain needs" if share == paper_table.NEEDED else formats.share(share)


def further(item: PaperItem) -> None:
    """Numbers of text and captions, differences in setting, and where the paper disagrees with itself."""
    rows = numbers(item.name)
    if len(rows):
        with st.container(border=True):
            st.markdown("### Numbers that the paper states", help=about("published"))
            shown = words.numbers(rows)
            st.dataframe(shown, hide_index=True, alt="Single published numbers of text and captions")
    if item.study is not None and (differences := cache.setting_differences(item.study)):
        with st.container(border=True):
            st.markdown("### Differences in the setting")
            study_choice.setting_table(differences)
    if slip := slips(item.name):
        with st.expander(f"Where the paper disagrees with itself: {formats.counted(len(slip), 'point')}"):
            st.markdown("\n".join(f"- {text.plain(sentence)}" for sentence in slip))
    if item.study is not None:
        study_choice.notes((item.study,))
