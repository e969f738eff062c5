"""Saving a region by hand as a run: the job that makes it, how far it is, and the finished run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from skillviz import jobs
from skillviz.core.recipe import canonical
from skillviz.errors import BadInput, SkillvizError, StoreError
from skillviz.jobs.job import Job, JobProgress
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.ui import address, cache, pages, text
from skillviz.ui.made import Made
from skillviz.ui.sweep import pair_entries

JOB = "job"
POLL = 1.0  # seconds between two looks at the job
PHASES = {
    "queued": "waiting for the device",
    "check": "checking models, task and recipe",
    "load": "loading both models and the data",
    "predict": "scoring the pre-trained and the fine-tuned model",
    "search": "putting the region together",
    "evaluate": "scoring the graft",
    "store": "storing the run",
}


def save(run: Run, made: Made) -> None:
    """The card that starts the job, with the command that does the same, and the job that was started last."""
    spec = spec_of(run, made)
    stored = same(run, spec.options["recipe"])
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
            st.page_link(pages.PAGES["overview"].link(), label="Open it", query_params={address.RUN: stored})
        with st.expander("The same as a command"):
            st.code(spec.command(), language="bash", wrap_lines=True)
        _job()


def spec_of(run: Run, made: Made) -> RunSpec:
    """The run's own spec with the recipe in place of its localizer; its size is that of the region."""
    own: dict[str, Any] = {
        "localizer": "recipe", "options": {"recipe": dict(made.recipe)}, "sizes": (str(max(made.size, 1)),),
        "seed": 0, "steps": None, "batch_size": None, "autocast": None, "device": "auto",
    }  # fmt: skip
    return run.spec.model_copy(update=own)


def same(run: Run, recipe: Mapping[str, Any]) -> str | None:
    """The id of a finished run of this recipe and pair, None where there is none."""
    for entry in pair_entries(run):
        options = cache.run(entry.id).spec.options if entry.localizer == "recipe" else {}
        try:
            if "recipe" in options and canonical(options["recipe"]) == canonical(recipe):
                return entry.id
        except BadInput:
            continue
    return None


def _reason(made: Made, stored: str | None) -> str:
    """Why there is nothing to save; empty where there is."""
    if not made.size:
        return "A region without entries cannot be saved."
    if made.is_own:
        return "This is the region of the run that is shown, which is stored already."
    return f"It is stored already, as run `{stored}`." if stored else ""


def _start(spec: RunSpec, note: str) -> None:
    store = cache.own_store()
    try:
        with st.spinner("Checking models, task and recipe."):
            job = jobs.start(spec, store)
        if note.strip():
            store.set_note(job.run_id, note)
    except SkillvizError as error:
        st.error(text.plain(str(error.args[0])), icon=":material/error:")
        return
    address.keep(JOB, job.run_id)


def _job() -> None:
    """The job that the address names, or that was started last."""
    name = address.current(JOB)
    if name is None:
        return
    try:
        job = jobs.status(cache.own_store(), name)
    except StoreError:
        address.forget(JOB)
        return
    address.keep(JOB, job.run_id)
    if job.is_open:
        _watched(job.run_id)
    else:
        _ended(job)


@st.fragment(run_every=POLL)
def _watched(run_id: str) -> None:
    """A job under way, looked at every second; the page is drawn anew at its end."""
    store = cache.own_store()
    try:
        job, far = jobs.status(store, run_id), jobs.progress(store, run_id)
    except StoreError as error:
        st.caption(text.plain(str(error.args[0])))
        return
    if not job.is_open:
        st.rerun()
    st.markdown(f"Run `{run_id}`: {progress_words(job, far)}.")
    st.progress(far.share or 0.0)
    st.button("Cancel", icon=":material/stop_circle:", key="surgery.cancel", on_click=_cancel, args=(run_id,))


def progress_words(job: Job, far: JobProgress) -> str:
    """What a job is doing: `scoring the graft, 3.2 s left`."""
    if job.status == "queued" and job.position:
        return f"waiting, {text.counted(job.position, 'job')} before it"
    left = "" if far.seconds_left is None else f", {text.seconds(far.seconds_left)} left"
    return f"{PHASES.get(far.phase, far.phase)}{left}"


def _cancel(run_id: str) -> None:
    try:
        jobs.cancel(cache.own_store(), run_id)
    except StoreError:  # it ended by itself just before
        return


def _ended(job: Job) -> None:
    """What became of the job, and where to go from there."""
    if job.status == "finished":
        st.success(f"Run `{job.run_id}` is finished.", icon=":material/check:")
        st.page_link(
            pages.PAGES["overview"].link(), label="Open its overview", icon=":material/open_in_full:",
            query_params={address.RUN: job.run_id},
        )  # fmt: skip
        return
    why = f" {text.plain(job.error.message)} {text.plain(job.error.hint)}" if job.error else ""
    st.warning(f"Run `{job.run_id}` is {job.status}.{why}", icon=":material/error:")
    if st.button("Resume", icon=":material/resume:", key="surgery.resume"):
        try:
            jobs.resume(cache.own_store(), job.run_id)
        except SkillvizError as error:
            st.error(text.plain(str(error.args[0])))
        else:
            st.rerun()
