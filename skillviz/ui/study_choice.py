"""The choice of the stored study that a page shows: the one in the address (`study=`) or the box, else the best one.

The page's first experiment comes before its others; within an experiment, a study that its command still makes comes
first, then the study with the most steps. On a page that takes boards, studies that compare the graft with another
method come before all others.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from skillviz.analysis.method_points import GRAFT, OTHERS, SCALED, base_names
from skillviz.core.localizers.table import RIVALS
from skillviz.show import text
from skillviz.studies.paper.scales import SCALES, SMALL
from skillviz.studies.paper.setting import SettingRow
from skillviz.studies.store import StudyFolder
from skillviz.tasks.readable_names import readable
from skillviz.ui import address, cache, controls, exports, study_words
from skillviz.ui.page_table import PAGES
from skillviz.ui.run_bar import width_of

STUDY = "study"
ICONS = {"paper": ":material/menu_book:", "studies": ":material/table_view:"}
LABELS = {"paper": "Beside the paper", "studies": "Open the study"}


def offered(experiments: Sequence[str] | None, boards: bool = False) -> list[StudyFolder]:
    """The studies of these experiments that have tables, the best first; None means any study.

    With `boards` also users' own studies that compare a graft with other regions.
    """
    with_tables = [study for study in cache.studies() if study.tables()]
    studies = [study for study in with_tables if _is_of(study, experiments) or (boards and _is_board(study))]
    return sorted(studies, key=lambda study: (boards and not _has_methods(study), *_rank(study, experiments or ())))


def refuse_unfinished(study: StudyFolder, why: str) -> None:
    """Shows why a study has nothing to draw yet, and the command that resumes it; stops."""
    st.info(why)
    st.code(study_words.command(study), language=None, wrap_lines=True)
    st.stop()


def measuring(experiment: str) -> list[StudyFolder]:
    """The studies with a known scale that judge the claims of an experiment, the best first."""
    return [study for study in offered((experiment,)) if study.record.scale in SCALES]


def without_tables(experiments: Sequence[str] | None) -> list[StudyFolder]:
    """The studies of these experiments without tables: running or failed."""
    return [study for study in cache.studies() if not study.tables() and _is_of(study, experiments)]


def beside(study: StudyFolder, experiments: Sequence[str], base: str) -> tuple[StudyFolder, ...]:
    """The study, and the other studies of these experiments with tables on the same subject.

    The subject is the same if the scale, the only base and the readout agree, and if both have the same files for each
    task and fine-tuned model that they name alike. A study whose file cannot be read has no companions.
    """
    together, about = [study], cache.study_subject(study)
    about = about and about.of(base)
    for other in offered(experiments):
        about_other = cache.study_subject(other)
        is_other = other.record.scale == study.record.scale and other.name != study.name
        if is_other and about and about_other and about.goes_with(about_other):
            together.append(other)
            about = about.with_tasks_of(about_other)
    return tuple(together)


def choose(studies: Sequence[StudyFolder], title: str = "", widest: int = 640) -> StudyFolder:
    """The chosen one of `studies`; draws the box, at most `widest` pixels, and keeps its name in the address.

    Without a `title` the box is as low as a run bar.
    """
    by_name = {study.name: study for study in studies}
    warning = unfitting(list(by_name))
    labels = study_words.labels(studies)
    name = controls.select(
        STUDY,
        title or "Study",
        list(by_name),
        next(iter(by_name)),
        shown=lambda one: labels.get(one, one),
        help="Studies with the data of this page. Start more on the page Studies.",
        width=min(widest, width_of([title, *labels.values()])),
        shows_label=bool(title),
        link_has_default=True,
    )
    if warning:
        st.warning(warning, icon=":material/search_off:")
    return by_name[name]


def unfitting(names: Sequence[str]) -> str:
    """The reason why the study in the address is not shown; empty if it is shown, or if the address names none."""
    linked = address.linked(STUDY)
    if linked is None or linked in names:
        return ""
    other = next((study for study in cache.studies() if study.name == linked), None)
    return study_words.unknown(linked) if other is None else study_words.other_page(other)


def explain_none(experiments: Sequence[str]) -> None:
    """Draws the explanation if no study of these experiments has tables: the reason, a link, and the commands."""
    if warning := unfitting(()):
        st.warning(warning, icon=":material/search_off:")
    st.markdown(study_words.missing(experiments))
    if begun := without_tables(experiments):
        st.info(study_words.unfinished(begun), icon=":material/hourglass_empty:")
    query = {"view": "new", "new.experiment": experiments[0]}
    st.page_link(PAGES["studies"].link(), label="Start a study", icon=":material/play_arrow:", query_params=query)
    st.code(study_words.commands(experiments), language=None, wrap_lines=True)


def _is_of(study: StudyFolder, experiments: Sequence[str] | None) -> bool:
    return experiments is None or study.record.experiment in experiments


def _is_board(study: StudyFolder) -> bool:
    """True if a user's own study compares a graft with at least two other ways to choose its region."""
    return not study.record.experiment and len(_compared(study) & set(RIVALS)) > 1


def _has_methods(study: StudyFolder) -> bool:
    """True if a study compares a graft with another method; another choice of its region is not a method."""
    return bool(_compared(study) & (set(OTHERS) - set(RIVALS) - {SCALED}))


def _compared(study: StudyFolder) -> frozenset[str]:
    """The methods that the study's differences compare with a graft."""
    if "differences" not in study.tables():
        return frozenset()
    return cache.computed(("compared",), [study], lambda: _beside_graft(cache.study_table(study, "differences")))


def _beside_graft(differences: pd.DataFrame) -> frozenset[str]:
    if differences.empty:
        return frozenset()
    is_graft = {side: differences[side] == GRAFT for side in ("a", "b")}
    return frozenset(differences.loc[is_graft["a"], "b"]) | frozenset(differences.loc[is_graft["b"], "a"])


def _rank(study: StudyFolder, experiments: Sequence[str]) -> tuple[bool, int, bool, int, str]:
    record = study.record
    place = experiments.index(record.experiment) if record.experiment in experiments else len(experiments)
    return (
        (record.scale or SMALL.name) not in SCALES,
        place,
        not cache.is_as_requested(study),
        -len(record.steps),
        study.name,
    )


def setting_table(rows: Sequence[SettingRow]) -> None:
    """Draws the differences between a study and the paper: aspect, paper, here."""
    frame = pd.DataFrame([map(readable, row) for row in rows], columns=["Aspect", "Paper", "Here"])
    caption = "Where the study differs from the paper"
    st.table(text.plain_cells(frame), border="horizontal", hide_index=True, alt=caption)
    exports.table_menu(frame, file="differences-from-the-paper", key="settings", caption=caption)


def notes(studies: Sequence[StudyFolder]) -> None:
    """Draws the notes of the studies, folded."""
    stored = [line for study in studies for line in cache.study_table(study, "note").get("text", ())]
    lines = [text.with_code(line, text.tasks) for line in stored]
    if not lines:
        return
    with st.expander("About this study" if len(studies) == 1 else "About these studies"):
        st.markdown("\n".join(f"- {line}" for line in dict.fromkeys(lines)))


def links(study: StudyFolder, shown_on: str) -> None:
    """Draws links to the pages that show this study, except `shown_on`, the current page."""
    name = study.record.experiment or ""
    best = [page for page, row in PAGES.items() if name in row.experiments]
    with st.container(horizontal=True):
        for target in ("paper", "studies", *best):
            if target == shown_on or not (name or target == "studies"):
                continue
            row = PAGES[target]
            query = {STUDY: study.name, **{"paper": {"item": name}, "studies": {"view": "study"}}.get(target, {})}
            label = LABELS.get(target, f"On the page {row.title}")
            st.page_link(row.link(), label=label, icon=ICONS.get(target, ":material/bar_chart:"), query_params=query)


def choose_base(bases: Sequence[str]) -> str:
    """The chosen base of a study's rows; draws a box if there are several."""
    if len(bases) == 1:
        return bases[0]
    names = base_names(bases)
    width = max(200, width_of([*names.values()]))
    return controls.select("base", "Base", bases, bases[0], shown=names.get, written=names.__getitem__, width=width)
