"""The tour's last step: a localization of a demo pair as a job of its own, and where to go from there."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz import jobs
from skillviz.errors import SkillvizError, StoreError
from skillviz.jobs.job import Job
from skillviz.runs.spec import RunSpec
from skillviz.show import text
from skillviz.tasks.demo_world import MAIN, PairEntry, World
from skillviz.ui import address, cache, controls, jobs_view, sign_in
from skillviz.ui import page_table as pages
from skillviz.ui.action import action
from skillviz.ui.pages.tour import questions
from skillviz.ui.pages.tour.demo_run import DemoRun
from skillviz.ui.pages.tour.questions import Question

PAIR, JOB = "tour.pair", "tour.job"
SIZE = "1%"
SEED = 3  # the shipped runs have others
FOUND, GUESS = "Its region is one click away below.", "Make your guess, then reveal what it found."
FURTHER = ("overview", "sparsity", "examples", "surgery", "compare", "launch")


def draw(demo: DemoRun, left: DeltaGenerator, right: DeltaGenerator, is_revealed: bool) -> Question | None:
    """The pair and the button on the left, the job on the right; None where the world's index is not here."""
    with left:
        job = _started()
        if demo.world is not None and demo.world.pairs:
            names = [pair.name for pair in demo.world.pairs]
            first = MAIN if MAIN in names else names[0]
            name = controls.select(PAIR, "Pair", names, first, shown=partial(pair_title, demo.world))
            _button(spec_of(demo.world, demo.world.pair(name)), job)
        else:
            st.info("The demo world's index is missing, so there is no pair to offer.")
    with right:
        if job is None:
            with st.container(border=True):
                st.caption("No search has started yet. Its progress appears here.")
        elif job.status == "finished":  # what it found is the answer
            with st.container(border=True):
                st.markdown(f"The search has finished. {FOUND if is_revealed else GUESS}")
        else:
            jobs_view.follow(job.run_id)
    return questions.share_recovered(job.run if job is not None and job.status == "finished" else None)


def spec_of(world: World, pair: PairEntry) -> RunSpec:
    """A short localization of a pair of the world."""
    models: dict[str, Any] = {"base": pair.base, "finetuned": pair.finetuned, "readout": pair.readout}
    drawn: dict[str, Any] = {"k_shot": pair.k_shot, "data_seed": world.seed} if pair.k_shot else {}
    return RunSpec(**models, task=world.task(pair.task).file, sizes=(SIZE,), seed=SEED, **drawn)


def pair_title(world: World, name: str) -> str:
    """A pair in words: its task's title, then how few its examples are, and its readout where it is not a prompt."""
    pair = world.pair(name)
    title = world.task(pair.task).title
    details = [f"{pair.k_shot} examples a class"] if pair.k_shot else []
    details += [] if pair.readout == "prompt" else [f"{pair.readout} readout"]
    return ", ".join([title, *details])


def _button(spec: RunSpec, job: Job | None) -> None:
    is_open = job is not None and job.is_open
    if action("Find its region", type="primary", icon=":material/play_arrow:", disabled=is_open, key="tour.start"):
        _start(spec)
    if is_open:
        st.caption("One search at a time here. Launch accepts more.")
    with st.expander("Show as a command"):
        st.code(spec.command(), language=None, wrap_lines=True)


def _start(spec: RunSpec) -> None:
    """Starts the job, and says what stands against it."""
    try:
        with st.spinner("Checking models and task."):
            job = jobs.start(spec, cache.user_store())
    except SkillvizError as error:
        st.warning(text.plain(sign_in.sentence_of(error)), icon=":material/error:")
        return
    address.keep(JOB, job.run_id)
    st.rerun()


def _started() -> Job | None:
    """The job that the address names, or that was started last; None where its folder is gone."""
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


def further(demo: DemoRun, is_revealed: bool) -> None:
    """Where to go from here: other pages, on the run that was made here once its answer is told, else the tour's."""
    job = _started()
    own = job.run_id if is_revealed and job is not None and job.status == "finished" else None
    st.markdown(f"**Continue with {'your own run' if own else 'the run of this tour'}:**")
    with st.container(horizontal=True):
        for name in FURTHER:
            entry = pages.PAGES[name]
            options: dict[str, Any] = {"label": entry.question, "icon": ":material/arrow_outward:"}
            st.page_link(entry.link(), **options, query_params={address.RUN: own or demo.run.id})
