"""The methods page's parts: which task, training data, localizer and size are looked at, and what its figures take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from skillviz.analysis.tables import label
from skillviz.core import formats
from skillviz.plots.theme import localizer_style
from skillviz.show import methods as exhibits
from skillviz.show.glossary import about
from skillviz.studies.paper.claims import main_share
from skillviz.studies.paper.scales import SCALES
from skillviz.studies.store import StudyFolder
from skillviz.ui import cache, controls, page, study_choice, study_words
from skillviz.ui.chart import show, theme
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.methods import tables as method_tables
from skillviz.ui.pages.methods import words
from skillviz.ui.pages.methods.tables import GRAFT, Asked
from skillviz.ui.pages.studies import commands as study_asked
from skillviz.ui.picker import width_of


@dataclass(frozen=True)
class Found:
    """The rows of the chosen study and of those about the same, and what of them is looked at."""

    studies: tuple[StudyFolder, ...]
    base: str
    scores: pd.DataFrame
    differences: pd.DataFrame
    asked: Asked
    share: float | None
    """The graft's size that the others are compared with; None where none was compared."""
    further: bool
    """Whether other optimizers and other choices of a region are shown too."""

    @property
    def metric(self) -> str:
        """The task's own metric."""
        return method_tables.own_metric(self.scores, self.asked.task)


def choose(study: StudyFolder) -> Found:
    """The controls above the figures; explains and stops where no study has scores of a method."""
    with page.explained():
        bases = method_tables.bases(cache.study_table(study, "scores"))
    if not bases:
        st.info("The study has no scores yet: no step of it has ended that a table could be made from.")
        st.stop()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        base = choose_base(bases)
        with page.explained():
            studies = study_choice.beside(study, PAGES["methods"].experiments, base)
            scores, differences = rows_of(studies, base)
        asked = _asked(scores)
        share = _share(differences, asked, main_share(study.record.scale))
        further = method_tables.has_further(scores, asked) and _further(study)
    return Found(studies, base, scores, differences, asked, share, further)


def rows_of(studies: Sequence[StudyFolder], base: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The scores of this base and the differences of all these studies, those of the first before the others'.

    Differences do not tell their base, so those of a study with several are left out.
    """
    tables = [cache.study_table(one, "scores") for one in studies]
    scores = method_tables.joined([method_tables.of_base(table, base) for table in tables], method_tables.KEYS)
    single = [one for one, table in zip(studies, tables, strict=True) if len(method_tables.bases(table)) <= 1]
    differences = method_tables.joined(
        [cache.study_table(one, "differences") for one in single], method_tables.DIFFERENCE_KEYS
    )
    return scores, differences


def summary(found: Found) -> str:
    """The page's sentence."""
    if found.share is None:
        several = len(method_tables.bases(cache.study_table(found.studies[0], "scores"))) > 1
        return words.no_rival(found.asked.task, several)
    rows = _less_graft(found, found.asked.task)
    return words.summary(rows, found.asked, found.share, found.metric)


def on_own_task(found: Found) -> None:
    """The task's metric and ECE by parameters touched, and every method less the graft."""
    for draw in (_by_touched, _rivals):
        for place, metric in zip(st.columns(2), (found.metric, "ece"), strict=True):
            with place:
                draw(found, found.asked.task, metric)


def on_other_data(found: Found) -> None:
    """The same on a task that nothing was trained on; where there is none, what makes one."""
    st.markdown("## On other data, without training on them", help=about("ood"))
    tasks = method_tables.other_tasks(found.scores, found.asked)
    if not tasks:
        command, is_whole = _transfer(found)
        st.info(words.no_transfer(found.asked.task, is_whole))
        st.code(command, language="bash", wrap_lines=True)
        return
    task = controls.select(
        "other", "Scored on", tasks, tasks[0], width=260, help=study_words.task_titles(tasks) or None
    )
    left, right = st.columns(2)
    with left:
        _by_touched(found, task, found.metric, "other")
    with right:
        _rivals(found, task, found.metric, "other_rivals")


def notes(found: Found) -> None:
    """Where the rows come from, and what the studies say of themselves."""
    st.caption(words.sources(found.studies))
    study_choice.notes(found.studies)


def _transfer(found: Found) -> tuple[str, bool]:
    """The command that asks for scores on other data, and whether it is enough by itself."""
    study = found.studies[0]
    about, scale = cache.study_subject(study), SCALES.get(study.record.scale or "")
    if about is None or scale is None:
        return study_words.commands(("table3",)), True
    return study_asked.on_other_data(scale, about, found.base, found.asked.task)


def choose_base(bases: Sequence[str]) -> str:
    """Chosen where the study has several."""
    if len(bases) == 1:
        return bases[0]
    shown = method_tables.base_names(bases)
    width = max(200, width_of([*shown.values()]))
    return controls.select("base", "Base", bases, bases[0], shown=shown.get, written=shown.__getitem__, width=width)


def _asked(scores: pd.DataFrame) -> Asked:
    tasks = list(dict.fromkeys(scores["id_task"]))
    said = study_words.task_titles(tasks)
    help = f"The task that the models were tuned on.\n\n{said}"
    task = controls.select("task", "Task", tasks, tasks[0], width=260, help=help)
    own = scores[scores["id_task"] == task]
    settings = {label(*pair): pair for pair in zip(own["setting"], own["readout"], strict=True)}
    setting = next(iter(settings))
    if len(settings) > 1:
        setting = controls.select("setting", "Training data", list(settings), setting, width=180)
    grafts = own[own["method"] == GRAFT]
    searches = {label(*pair): pair for pair in zip(grafts["localizer"], grafts["search_variant"], strict=True)}
    searches = searches or {"": ("", "")}
    titles = {name: label(localizer_style(first).title, rest) for name, (first, rest) in searches.items()}
    search = next(iter(searches))
    if len(searches) > 1:
        search = controls.select(
            "localizer", "Localizer", list(searches), search, shown=titles.get, width=200, help=about("localizer")
        )
    (data, readout), (localizer, variant) = settings[setting], searches[search]
    return Asked(task, data, localizer, readout, variant)


def _share(differences: pd.DataFrame, asked: Asked, main: float | None) -> float | None:
    sizes = method_tables.sizes(differences, asked)
    if not sizes:
        return None
    default = method_tables.main_size(differences, asked, main)
    return controls.select("size", "Region size", sizes, default, shown=formats.share, width=160, help=about("size"))


def _further(study: StudyFolder) -> bool:
    """Asked of the reader; on where the study itself is about them."""
    is_about = study.record.experiment not in ("table1", "table3")
    help = "Models fine-tuned with AdamW (and L1 on the movement), their grafts, and grafts of the top movement."
    return controls.switch("further", "AdamW and top movement too", is_about, help=help)


def _less_graft(found: Found, task: str) -> pd.DataFrame:
    """Every method that is shown less the graft; no rows where none was compared."""
    differences = found.differences if found.share is not None else found.differences.iloc[:0]
    rows = method_tables.against_graft(differences, found.asked, task, found.share or 0.0)
    return rows if found.further else method_tables.main_ones(rows)


def _by_touched(found: Found, task: str, metric: str, name: str = "touched") -> None:
    points = method_tables.points(found.scores, found.asked, task)
    points = points if found.further else method_tables.main_ones(points)
    before = points[(points["method"] == "pretrained") & (points["metric"] == metric)]["value"]
    levels = {"pretrained": float(before.iloc[0])} if len(before) else {}
    show(exhibits.by_touched(points, metric, task, levels, theme(), name), found.studies[0].name)


def _rivals(found: Found, task: str, metric: str, name: str = "rivals") -> None:
    share, rows = found.share, _less_graft(found, task)
    if rows.empty:
        st.info("No method was compared with a graft on the same examples here, so there is no difference to show.")
        return
    show(exhibits.against_graft(rows, metric, task, float(share or 0), theme(), name), found.studies[0].name)
