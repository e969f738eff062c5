"""The tour's last step: a quick localization of the run's own pair as a job, and links to further pages."""

from __future__ import annotations

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz import jobs
from skillviz.core import formats
from skillviz.errors import SkillvizError, StoreError
from skillviz.jobs.job import Job
from skillviz.runs.spec import RunSpec
from skillviz.serving import sign_in
from skillviz.show import beyond, text
from skillviz.ui import address, cache, jobs_view
from skillviz.ui import page_table as pages
from skillviz.ui.action import action
from skillviz.ui.pages.tour import questions
from skillviz.ui.pages.tour.opening_run import OpeningRun
from skillviz.ui.pages.tour.questions import Question

JOB = "tour.job"
QUICK: dict[str, Any] = {
    "seed": 3, "steps": 6, "batch_size": 32, "max_train": 400, "max_validation": 50, "max_test": 200
}  # fmt: skip
"""A search of at most 45 s with MiniLM on two quiet cores; the shipped runs have other seeds."""
FOUND, GUESS = "Its region is one click away below.", "Make your guess, then reveal what it found."
FURTHER = ("overview", "sparsity", "examples", "surgery", "compare", "launch")


def draw(opening: OpeningRun, left: DeltaGenerator, right: DeltaGenerator, is_revealed: bool) -> Question:
    """Draws the search and its button on the left, the job on the right."""
    spec = spec_of(opening)
    with left:
        job = _started()
        st.caption(
            f"{spec.steps} steps of {spec.batch_size} sentences, drawn from {spec.max_train}; scored on "
            f"{spec.max_test} test sentences. The tour's own run searched longer and is scored on "
            f"{formats.count(opening.scores.n)}."
        )
        _button(spec, job)
    is_finished = job is not None and job.status == "finished"
    with right:
        if job is None:
            with st.container(border=True):
                st.caption("No search has started yet. Its progress appears here.")
        elif is_finished:  # the result is the answer
            with st.container(border=True):
                st.markdown(f"The search has finished. {FOUND if is_revealed else GUESS}")
        else:
            jobs_view.follow(job.run_id)
    null = beyond.line(opening.record, opening.split)
    return questions.share_recovered(job.run if job is not None and is_finished else None, f"As stored: {null}")


def spec_of(opening: OpeningRun) -> RunSpec:
    """A quick search of the run's pair for its main size, without nulls: this pair's are already stored."""
    spec = opening.record.spec
    same = {name: getattr(spec, name) for name in ("base", "finetuned", "task", "readout", "localizer")}
    return RunSpec(**same, sizes=spec.sizes[:1], **QUICK)


def _button(spec: RunSpec, job: Job | None) -> None:
    is_open = job is not None and job.is_open
    if action("Find a region", type="primary", icon=":material/play_arrow:", disabled=is_open, key="tour.start"):
        _start(spec)
    if is_open:
        st.caption("One search at a time here. Launch accepts more.")
    with st.expander("Show as a command"):
        st.code(spec.command(), language=None, wrap_lines=True)


def _start(spec: RunSpec) -> None:
    """Starts the job, or shows the reason why it cannot start."""
    try:
        with st.spinner("Checking models and task."):
            job = jobs.start(spec, cache.user_store())
    except SkillvizError as error:
        st.warning(text.plain(sign_in.sentence_of(error)), icon=":material/error:")
        return
    address.keep(JOB, job.run_id)
    st.rerun()


def _started() -> Job | None:
    """The job in the address, or the one started last; None if its folder no longer exists."""
    name = address.current(JOB)
    if name is None:
        return None
    try:
        job = jobs.status(cache.user_store(), name)
    except StoreError:
        address.forget(JOB)
        return None
    address.keep(JOB, job.run_id)
    return job


def further(opening: OpeningRun, is_revealed: bool) -> None:
    """Draws links to other pages, for the user's own run once its answer is revealed, else for the tour's run."""
    job = _started()
    own = job.run_id if is_revealed and job is not None and job.status == "finished" else None
    st.markdown(f"**Continue with {'your own run' if own else 'the run of this tour'}:**")
    with st.container(horizontal=True):
        for name in FURTHER:
            entry = pages.PAGES[name]
            options: dict[str, Any] = {"label": entry.question, "icon": ":material/arrow_outward:"}
            st.page_link(entry.link(), **options, query_params={address.RUN: own or opening.run.id})
