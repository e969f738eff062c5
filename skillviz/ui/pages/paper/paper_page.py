"""The sections of the paper page: the choice of table or figure and study, values, verdicts and differences."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from skillviz.analysis.readable_table import as_stored
from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import NOT_MEASURED
from skillviz.show import paper as exhibits
from skillviz.show import text
from skillviz.show.glossary import about
from skillviz.studies.paper.claims import Verdict, main_share
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.experiments import EXPERIMENTS, published_verdicts
from skillviz.studies.paper.published_values import TABLES, numbers, slips
from skillviz.studies.store import StudyFolder
from skillviz.studies.subject import bases_of, rows_of_base
from skillviz.ui import address, cache, controls, exports, page, study_choice, study_words
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.paper import scoreboard, words
from skillviz.ui.pages.paper import table as paper_table
from skillviz.ui.pages.paper.table import Selection

BESIDE = 430  # pixels of the scoreboard beside the figure of a claim
SIZES = (
    "The size of the regions that stand here. What 95% of the gain needs is a size a task: the smallest tried whose "
    "graft gets there, the largest tried where none does; the table says which."
)


@dataclass(frozen=True)
class PaperItem:
    """The open item: a table or figure of the paper, with its experiment and stored study if they exist."""

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
        """True if published rows are available for it."""
        return self.name in TABLES

    @property
    def is_published_only(self) -> bool:
        """True if only published rows are available; they are then shown in place of a claim."""
        return self.is_table and self.experiment is None


def claims() -> PaperItem | None:
    """Draws the scoreboard under the count of its verdicts; returns the open table or figure, None if none is open.

    For an open claim, its verdict replaces the count and its figure is beside the scoreboard.
    """
    with page.explained():
        judged = cache.computed(("scoreboard",), cache.studies(), scoreboard.scores)
        sentence = cache.computed(("scoreboard sentence",), cache.studies(), lambda: scoreboard.sentence(judged))
        rows = cache.computed(("scoreboard rows",), cache.studies(), lambda: scoreboard.table(judged))
        behind = cache.computed(
            ("scoreboard comparisons",), cache.studies(), lambda: words.comparison_counts([one.here for one in judged])
        )
    headline = st.empty()
    with st.container(horizontal=True, vertical_alignment="center"):
        item = _choose()
        claim = _choose_claim(item) if item is not None and item.verdicts else None
    if item is not None and item.is_published_only:
        headline.markdown(f"**{text.plain(words.items()[item.name])}.** {_why_there_is_none(item)}")
        values(item)
    elif claim is None:
        headline.markdown(sentence, help=about("verdict", "discovery"))
    row = st.container(horizontal=True)
    left, right = row.container(key="claims", width=BESIDE if claim else "stretch"), row.container()
    with left:
        scoreboard.draw(judged, rows, height=scoreboard.SHORT if item and not claim else scoreboard.TALL)
        if behind and item is None:
            st.caption(f"Behind these verdicts: {behind}", help=about("discovery"))
    if item is None or item.study is None or claim is None:
        return item
    here, paper = claim
    line = f"**{text.plain(here.claim)}** {words.verdict_line(here)}"
    more = f" {study_words.measured_by(item.name)}" if here.outcome == NOT_MEASURED else ""
    headline.markdown(line + more, help=about("verdict", "paired"))
    if here.comparisons:
        with right:
            show(exhibits.claim(here, paper, theme()), item.study.name)
    return item


def _choose() -> PaperItem | None:
    """The table or figure opened by a click in the scoreboard or in the box above it; None if none is open."""
    titles = {scoreboard.NONE: "Select a claim, or a table or figure", **words.items()}
    linked = address.linked(scoreboard.ITEM)
    name = controls.select(
        scoreboard.ITEM, "Table or figure", list(titles), scoreboard.NONE, shown=titles.get, width=330,
        shows_label=False,
    )  # fmt: skip
    if linked is not None and linked not in titles:
        st.warning(
            f"This link names '{text.plain(linked)}', which is no table or figure of the paper. Choose one here."
        )
    experiment = EXPERIMENTS.get(name)
    with page.explained():
        stored = study_choice.measuring(name) if experiment else []
        study = study_choice.choose(stored, widest=250) if stored else None
        tables = {table: cache.study_table(study, table) for table in study.tables()} if study else {}
    if name == scoreboard.NONE:
        return None
    outcomes = cache.study_verdicts(study) if study else ()
    return PaperItem(name, experiment, study, tables, tuple(outcomes))


def _choose_claim(item: PaperItem) -> tuple[Verdict, Verdict]:
    """The verdicts of our study and of the published values on one claim; draws a box if there are several claims."""
    by_text = {one.claim: (one, paper) for one, paper in zip(item.verdicts, published_verdicts(item.name), strict=True)}
    claim = next(iter(by_text))
    if len(by_text) > 1:
        claim = controls.select(scoreboard.CLAIM, "Claim", list(by_text), claim, shows_label=False)
    return by_text[claim]


def experiment(item: PaperItem) -> None:
    """Draws the experiment's question and the links to its study."""
    st.container(key="item-open").markdown(f"## {text.plain(words.items()[item.name])}")
    if item.experiment is None:
        st.info(_why_there_is_none(item))
        return
    st.markdown(text.plain(f"{item.experiment.question} The paper: {item.experiment.finding}"))
    if item.study is None:
        st.info(f"{words.PUBLISHED_ONLY} {study_words.measured_by(item.name)}")
        return
    if several := words.comparison_counts(item.verdicts):
        title = study_words.experiment_title(item.name)
        st.caption(f"All claims of {title}: {several}", help=about("discovery"))
    study_choice.links(item.study, "paper")


def _why_there_is_none(item: PaperItem) -> str:
    return f"There is no experiment of this here. {words.WITHOUT[item.name][1]}"


def values(item: PaperItem) -> None:
    """Draws published values beside ours: a figure of one metric, and the table of all metrics."""
    if not item.is_table:
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        selection = _select(item)
        rows = paper_table.rows_beside(selection, item.tables)
        metrics = list(dict.fromkeys(rows["metric"]))
        metric = controls.segments("metric", "Metric", metrics, metrics[0], shown=lambda one: metric_row(one).title)
    marks = paper_table.marks(rows, metric)
    table = paper_table.shown(rows)
    show(exhibits.values(marks, table[rows["metric"] == metric], metric, selection.setting, theme()), item.name)
    fold = st.expander("All values", key="table.values", on_change="rerun")
    if not fold.open:
        return
    with fold:
        st.caption(words.CAUTION)
        if note := words.unmatched(rows):
            st.caption(note)
        st.dataframe(table, hide_index=True, alt="Published values, ours, and their difference")
        stem = exports.file_name("paper", item.name, item.study.name if item.study else "")
        with st.container(horizontal=True):
            exports.table_buttons(
                rows,
                file=stem,
                key="paper",
                caption=f"{item.name}: published values and ours",
                words=lambda rows: as_stored(paper_table.shown(rows)),
            )


def _select(item: PaperItem) -> Selection:
    """The setting and the sizes that are compared."""
    settings, shares = paper_table.settings(item.name), paper_table.shares(item.name)
    scores = item.tables.get("scores", pd.DataFrame())
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
        ours_share = controls.select("size", "Here: region size", offered, nearest, shown=_size, width=260, help=SIZES)
    return Selection(item.name, setting, share, ours_share, base)


def _size(share: float) -> str:
    return "what 95% of the gain needs" if share == paper_table.NEEDED else formats.share(share)


def further(item: PaperItem) -> None:
    """Draws, folded, numbers from text and captions, differences in setting, and contradictions within the paper."""
    rows = numbers(item.name)
    if len(rows):
        fold = st.expander(f"Numbers in the paper's text: {len(rows)}", key="table.numbers", on_change="rerun")
        if fold.open:
            with fold:
                table = words.numbers(rows)
                st.dataframe(table, hide_index=True, alt="Single published numbers of text and captions")
                file, caption = exports.file_name("paper", item.name, "numbers"), f"{item.name}: numbers in the text"
                exports.table_menu(table, file=file, key="numbers", caption=caption)
    if item.study is not None:
        if differences := cache.setting_differences(item.study):
            with st.expander(f"Where our study differs from the paper: {formats.counted(len(differences), 'point')}"):
                study_choice.setting_table(differences)
        with st.expander("Reproduce"):
            st.caption(study_words.caption(item.study))
    if slip := slips(item.name):
        with st.expander(f"Where the paper disagrees with itself: {formats.counted(len(slip), 'point')}"):
            st.markdown("\n".join(f"- {text.plain(sentence)}" for sentence in slip))
    if item.study is not None:
        study_choice.notes((item.study,))
