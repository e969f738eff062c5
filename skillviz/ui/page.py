"""The beginning of every page: its frame, menu and run bar, and the run, or an explanation if there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.errors import SkillvizError, StoreError
from skillviz.runs.record import Scores
from skillviz.runs.run import Run
from skillviz.serving import read_only, sign_in
from skillviz.serving.settings import settings
from skillviz.show import measures, sentences, text
from skillviz.show.briefs import RunBrief, first_choice, run_labels
from skillviz.studies.store import StudyFolder
from skillviz.ui import address, cache, copy_link, embed, frame, live, presenter, show_code, study_choice, study_words
from skillviz.ui.page_table import PAGES, install
from skillviz.ui.run_bar import run_bar

INSTALL = "To localize a skill in your own model, install skillviz on a machine of yours."
LINKED = "page.linked"  # session key: the run in the address when a library page was opened
FIRST_RUN = """\
python -m skillviz finetune --base BASE --task TASK --out models/finetuned
python -m skillviz localize --base BASE --finetuned models/finetuned --task TASK --size 0.1%
streamlit run dashboard.py"""


def begin(name: str) -> Run:
    """Draws run bar and title and returns the page's run; shows an explanation and stops if there is none."""
    _frame(name)
    with explained():
        briefs = cache.briefs()
        if not briefs:
            st.title(PAGES[name].question)
            explain_empty()
            st.stop()
        chosen = _chosen(name, briefs)
        run = cache.run(chosen.id)
    address.keep(address.RUN, chosen.id)
    run_bar(briefs, chosen)  # includes the button that copies the link
    st.title(PAGES[name].question, anchor=False)
    if stopped := run.record.stopped:
        st.caption(f"A user ended this search after step {stopped}: the region is what it had by then.")
    return run


def begin_library(name: str) -> tuple[RunBrief, ...]:
    """Draws the title of a page about many runs and returns all runs; explains and stops if there are none."""
    _frame(name)
    _title(name)
    with explained():
        briefs = cache.briefs()
        others, unreadable = cache.others()
    if not briefs and not others and not unreadable:
        explain_empty()
        st.stop()
    if linked := address.linked(address.RUN):
        st.session_state[LINKED] = linked
    _keep_run()
    return briefs


def is_linked(run_id: str) -> bool:
    """True if the address named this run when a page about many runs was opened."""
    return bool(st.session_state.get(LINKED) == run_id)


def begin_home(name: str) -> tuple[DeltaGenerator, tuple[RunBrief, ...]]:
    """Draws the title and returns its row, for more elements, and all runs; explains and stops if there are none."""
    _frame(name)
    top = st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute")
    top.title(PAGES[name].question, anchor=False, width="content")
    with explained():
        briefs = cache.briefs()
    if not briefs:
        explain_empty()
        st.stop()
    return top, briefs


def begin_without_run(name: str) -> None:
    """Draws the title of a page that needs no run; the run in the address is kept for other pages.

    Shows an explanation and stops if the page starts jobs and the dashboard is read-only.
    """
    _frame(name)
    _title(name)
    _keep_run()
    if PAGES[name].starts and settings.read_only:
        missing("This is a read-only demo", f"{read_only.REASON} {INSTALL}", "lock")
        st.stop()


def begin_studies(name: str) -> StudyFolder:
    """Draws a picker of studies and the title, and returns the chosen study; explains and stops if there is none."""
    _frame(name)
    _keep_run()
    experiments = PAGES[name].experiments
    with explained():
        choices = study_choice.offered(experiments, PAGES[name].takes_boards)
        if not choices:
            st.title(PAGES[name].question, anchor=False)
            study_choice.explain_none(experiments)
            st.stop()
        with st.container(horizontal=True, vertical_alignment="center"):
            study = study_choice.choose(choices)
            with st.popover("Details", icon=":material/info:"):
                st.caption(study_words.caption(study))
    if study.record.status != "finished":
        st.caption(study_words.how_far(study))
    _title(name)
    return study


def _keep_run() -> None:
    """Keeps the run in the address, for the pages that need one."""
    with explained():
        known = {brief.id for brief in cache.briefs()}
    wanted = address.current(address.RUN)
    if wanted in known:
        address.keep(address.RUN, str(wanted))


@contextmanager
def explained() -> Iterator[None]:
    """Shows an error that a user can cause as its sentence and stops the page; programming errors are raised."""
    try:
        yield
    except SkillvizError as error:
        st.error(text.plain(sign_in.sentence_of(error)), icon=":material/error:")
        if isinstance(error, StoreError):
            st.page_link(PAGES["runs"].link(), label="Show all runs")
        st.stop()


def stored_table(run: Run, name: str, *, needed: bool = True) -> pd.DataFrame:
    """One of the run's tables: predictions, curve, history or layers.

    Shows an explanation and stops if the file cannot be read, or if a `needed` table has no rows.
    """
    with explained():
        frame = cache.stored_table(run, name)
    if needed and frame.empty:
        st.info(f"This run stored no {name}, so there is nothing to show here. This command makes a complete run:")
        st.code(run.spec.command(), language=None, wrap_lines=True)
        st.stop()
    return frame


def state_logits(run: Run, split: str, states: Sequence[str]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Stored logits [n, label] of these states and the labels [n] (`measures.state_logits`); they may not be changed.

    Shows an explanation and stops if the run has no predictions.
    """
    predictions = stored_table(run, "predictions")
    return cache.computed(
        ("logits", split, *states), [run], lambda: measures.state_logits(predictions, run.record, split, states)
    )


def stored_scores(run: Run, split: str) -> Scores:
    """The run's scores on a split; shows an explanation and stops if there are none."""
    values = run.record.metrics.get(split)
    if values is None:
        st.info(f"This run stored no scores on a {split} set, so there is nothing to compare on this page.")
        st.stop()
    return values


def note_architecture(run: Run) -> None:
    """Shows a note if layers share parameters, belong to two stacks, or are unknown."""
    sentence = sentences.architecture(run.record)
    if sentence:
        st.info(sentence)


def explain_empty() -> None:
    """Shows how to make a first run, for a store without runs: a link and three commands."""
    st.markdown(
        "**There is no run yet.** A run is one localization: a pre-trained and a fine-tuned model, a task, and the "
        "small region of parameters that carries what was learned. Make your first here, or in a terminal:"
    )
    st.page_link(PAGES["launch"].link(), label="Start a localization", icon=":material/play_arrow:")
    st.code(FIRST_RUN, language=None, wrap_lines=True)
    st.markdown(
        "`BASE` is a Hugging Face id or a folder, `TASK` a name such as `sst2` or your own YAML file. With a "
        "fine-tuned model at hand leave out the first line and name its folder."
    )
    if not sign_in.providers():  # users who sign in have no terminal on the server
        st.markdown(
            f"Runs are read from `{cache.user_store().root}`; set `SKILLVIZ_RUNS` to use another folder. Then reload "
            "this page."
        )


def _frame(name: str) -> None:
    row = PAGES[name]
    st.set_page_config(page_title=f"{row.title} · skillviz", page_icon=frame.BRAND / "mark-light.svg", layout="wide")
    frame.draw()
    install()
    address.keep_history()
    live.begin()
    presenter.begin(name)
    embed.begin()
    copy_link.begin()


def _title(name: str) -> None:
    """Draws the page's title, and at the end of its row the button that copies the link."""
    with st.container(
        key="page-title", horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
    ):
        st.title(PAGES[name].question, anchor=False, width="content")
        with st.container(horizontal=True, width="content", vertical_alignment="center"):
            show_code.place()
            copy_link.button()


def _chosen(name: str, briefs: tuple[RunBrief, ...]) -> RunBrief:
    """The run in the address or the session; if there is none, the first choice."""
    linked, wanted = address.linked(address.RUN), address.current(address.RUN)
    by_id = {brief.id: brief for brief in briefs}
    if wanted in by_id:
        return by_id[wanted]
    if linked:
        _explain_unknown(name, linked, briefs)
    return first_choice(briefs)


def _explain_unknown(name: str, linked: str, briefs: tuple[RunBrief, ...]) -> None:
    """Completes the prefix of a run's id in the address; for another id explains, offers a run, and stops."""
    try:
        run_id = cache.run(linked).id
    except StoreError as error:
        st.title(PAGES[name].question, anchor=False)
        st.error(f"This address names a run that cannot be shown: {text.plain(sign_in.sentence_of(error))}")
    else:
        address.keep(address.RUN, run_id)
        st.rerun()
    fallback = first_choice(briefs)
    label = f"Open {text.plain(run_labels(briefs)[fallback.id])}"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(label, on_click=address.keep, args=(address.RUN, fallback.id), type="primary")
        st.page_link(PAGES["runs"].link(), label="Show all runs")
    st.stop()


def missing(title: str, sentence: str, icon: str) -> DeltaGenerator:
    """Draws a card with a title and a sentence, both Markdown; returns it, to add the button or command that helps.

    `icon` is a Material symbol.
    """
    card = st.container(border=True)
    card.markdown(f"## :material/{icon}: {title}")
    card.markdown(sentence)
    return card
