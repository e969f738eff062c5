"""Saving a region by hand as a run: what stands against it, the job that makes it, and the run that came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from skillviz import jobs
from skillviz.core.localizers.table import BY_HAND
from skillviz.core.region_expression import canonical, parsed
from skillviz.errors import SkillvizError, StoreError
from skillviz.jobs.job import Job
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.show import text
from skillviz.ui import address, cache, jobs_view, page_table
from skillviz.ui.pages.sparsity.sweep import pair_entries
from skillviz.ui.pages.surgery.hand_region import Made

JOB = "job"


def save(run: Run, made: Made) -> None:
    """The card that starts the job, with the command that does the same, and the job that was started last."""
    spec = spec_of(run, made)
    stored = same(run, made.expression)
    with st.container(border=True):
        st.markdown("### Save it as a run")
        st.markdown(
            "A run scores this region on the whole validation and test sets, checks itself, and can be compared with "
            "the others on every page."
        )
        note = st.text_input("Note", key="surgery.note", max_chars=300, placeholder="What was the idea?")
        reason = _reason(made, stored)
        if st.button("Save as a run", type="primary", icon=":material/save:", disabled=bool(reason)):
            _start(spec, note)
        if reason:
            st.caption(reason)
        if stored:
            st.page_link(page_table.PAGES["overview"].link(), label="Open it", query_params={address.RUN: stored})
        with st.expander("The same as a command"):
            st.code(spec.command(), language="bash", wrap_lines=True)
    _follow()


def spec_of(run: Run, made: Made) -> RunSpec:
    """The run's own spec with the expression in place of its localizer; its size is that of the region."""
    own: dict[str, Any] = {
        "localizer": BY_HAND, "options": {BY_HAND: dict(made.expression)}, "sizes": (str(max(made.size, 1)),),
        "seed": 0, "steps": None, "batch_size": None, "autocast": None, "device": "auto",
    }  # fmt: skip
    return run.spec.model_copy(update=own)


def same(run: Run, expression: Mapping[str, Any]) -> str | None:
    """The id of a finished run of this expression and pair, None where there is none."""
    made = [entry.id for entry in pair_entries(run) if entry.localizer == BY_HAND]
    return next((one.id for one in cache.runs(made) if _is_of(one.spec, expression)), None)


def _is_of(spec: RunSpec, expression: Mapping[str, Any]) -> bool:
    """Whether a run makes the region of this expression."""
    return BY_HAND in spec.options and canonical(parsed(spec.options[BY_HAND])) == canonical(expression)


def _reason(made: Made, stored: str | None) -> str:
    """Why there is nothing to save; empty where there is."""
    if not made.size:
        return "A region without entries cannot be saved."
    if made.is_own:
        return "This is the region of the run that is shown, which is stored already."
    if stored:
        return f"It is stored already, as run `{stored}`."
    job = _started()
    return "It is being made." if job is not None and job.is_open and _is_of(job.spec, made.expression) else ""


def _start(spec: RunSpec, note: str) -> None:
    store = cache.own_store()
    try:
        with st.spinner("Checking models, task and region."):
            job = jobs.start(spec, store)
        if note.strip():
            store.set_note(job.run_id, note)
    except SkillvizError as error:
        st.error(text.plain(str(error.args[0])), icon=":material/error:")
        return
    address.keep(JOB, job.run_id)
    st.rerun()


def _started() -> Job | None:
    """The job that the address names, or that was started last; None where its folder is gone."""
    name = address.current(JOB)
    try:
        return None if name is None else jobs.status(cache.own_store(), name)
    except StoreError:
        return None


def _follow() -> None:
    """That job, as long as there is one."""
    job = _started()
    if job is None:
        address.forget(JOB)
    else:
        address.keep(JOB, job.run_id)
        jobs_view.follow(job.run_id)
