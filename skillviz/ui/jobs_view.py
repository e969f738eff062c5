"""Jobs as they go: the queue, progress, the growing chart, the log; cancel and resume. All of it is read from disk.

Only the panel is drawn again while a job is open; the page itself follows once, when a job begins or ends.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

import streamlit as st

from skillviz import jobs
from skillviz.errors import RunNotFound, SkillvizError
from skillviz.jobs.job import Job
from skillviz.plots.history import search_history
from skillviz.runs.folder import OPEN
from skillviz.runs.region_expression import NAME as BY_HAND  # also the field of the address
from skillviz.runs.spec import RunSpec
from skillviz.show import alt, sentences, text
from skillviz.show.entries import headline_scores
from skillviz.show.glossary import about
from skillviz.ui import address, cache, job_words, page_table
from skillviz.ui.chart import chart, theme
from skillviz.ui.job_words import Steps

EVERY = 1.0  # seconds between two looks at an open job
LOG_LINES = 15
FOLLOWED, HIDDEN, TOLD, PROBLEM = "jobs.followed", "jobs.hidden", "jobs.told", "jobs.problem"
READS = (
    "above, the training loss at each step; below, how many entries the step switched on (up) and off (down, hatched)."
)
CANCELS = (
    "Stops within two seconds and keeps the last checkpoint, so that it can be resumed. The next job of the device "
    "begins."
)


def panel(wanted: Sequence[str] = ()) -> None:
    """The jobs of this session, those of `wanted`, and every open one; drawn again each second while one is open."""
    ids = _followed(wanted)
    found = _now(ids)
    _tell_problem()
    if not found:
        return
    st.markdown("## Jobs", help=about("checkpoint"))
    st.fragment(_live, run_every=EVERY if _open(found) else None)(ids, _open(found))


def follow(run_id: str) -> None:
    """One job alone, for the page that started it; drawn again each second while it is open."""
    found = _now([run_id])
    if found and run_id not in st.session_state.setdefault(HIDDEN, set()):
        st.fragment(_alone, run_every=EVERY if found[0].is_open else None)(run_id, found[0].is_open)


def _alone(run_id: str, was_open: bool) -> None:
    """Its card; the whole page is run anew once where it began or ended since it was."""
    found = _now([run_id])
    if not found or found[0].is_open != was_open:
        st.rerun()
    _tell_problem()
    _card(found[0])


def _tell_problem() -> None:
    """Says once why the last cancel or resume was refused."""
    if sentence := st.session_state.pop(PROBLEM, ""):
        st.error(text.plain(sentence), icon=":material/error:")


def _live(ids: tuple[str, ...], before: frozenset[str]) -> None:
    """The cards; the whole page is run anew once where a job began, ended or was hidden since it was."""
    found = _now(ids)
    if _open(found) != before or _followed(()) != ids:
        st.rerun()
    _tell_problem()
    for job in found:
        _card(job)


def _followed(wanted: Sequence[str]) -> tuple[str, ...]:
    """The ids to show: what was open at some time in this session stays, until it is hidden."""
    kept: list[str] = st.session_state.setdefault(FOLLOWED, [])
    hidden: set[str] = st.session_state.setdefault(HIDDEN, set())
    kept += [run_id for run_id in dict.fromkeys((*wanted, *_open_here())) if run_id not in kept]
    return tuple(run_id for run_id in kept if run_id not in hidden)


def _open_here() -> list[str]:
    """The queued and running ones of the user's own store, oldest first."""
    own = cache.own_store().root.resolve()
    others = cache.others()[0]
    return [o.id for o in reversed(others) if o.record.status in OPEN and o.path.parent.resolve() == own]


def _now(ids: Sequence[str]) -> list[Job]:
    """The jobs as they are now: running, waiting by their place, then ended; deleted ones are left out."""
    found = []
    for run_id in ids:
        try:
            found.append(jobs.status(cache.own_store(), run_id))
        except SkillvizError as error:
            if not isinstance(error, RunNotFound):
                st.session_state[PROBLEM] = str(error.args[0])
    return sorted(found, key=lambda job: (not job.is_open, job.status != "running", job.slot, job.position or 0))


def _open(found: Sequence[Job]) -> frozenset[str]:
    return frozenset(job.run_id for job in found if job.is_open)


def _card(job: Job) -> None:
    with st.container(border=True, key=f"job-{job.run_id}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            colour, sign = job_words.STATUS[job.status]
            st.badge(job.status, icon=sign, color=colour)  # type: ignore[arg-type]
            st.markdown(f"`{job.run_id}`", width="content")
        st.caption(job_words.what(job))
        _CARDS[job.status](job)
        if job.status != "finished":
            with st.expander("Log", key=f"jobs.log.{job.run_id}"):
                st.code(jobs.log_tail(cache.own_store(), job.run_id, LOG_LINES) or "nothing yet", language=None)


def _queued(job: Job) -> None:
    st.markdown(job_words.waits(job))
    _cancel_button(job)


def _running(job: Job) -> None:
    store = cache.own_store()
    progress = jobs.progress(store, job.run_id)
    if progress.phase not in job_words.PHASES:  # it ended between the two looks
        return
    st.progress(job_words.share(progress), job_words.far(progress))
    told: dict[str, Steps] = st.session_state.setdefault(TOLD, {})
    steps = told.setdefault(job.run_id, Steps())
    for told_now, place in jobs.pieces(store, job.run_id, steps.place):
        steps.hear(told_now, place)
    history, title = steps.drawing(job.spec.localizer, time.monotonic())
    if len(history) > 1:
        chart(
            search_history(history, theme=theme(), height=320),
            name=f"job-{job.run_id}",
            title=title,
            reads=READS,
            alt=alt.history(history),
            table=history,
            run_id=job.run_id,
        )
    _cancel_button(job)


def _cancel_button(job: Job) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        _button("Cancel", "cancel", job, jobs.cancel, icon=":material/stop_circle:")
        st.caption(CANCELS)


def _finished(job: Job) -> None:
    scores = headline_scores(job.record)
    if scores is not None:
        st.markdown(sentences.overview(job.record, scores))
    with st.container(horizontal=True, vertical_alignment="center"):
        target = page_table.PAGES["overview"].link()
        st.page_link(
            target, label="Open the run", icon=":material/open_in_full:", query_params={address.RUN: job.run_id}
        )
        _hide_button(job)


def _failed(job: Job) -> None:
    kind = job.error.kind if job.error else ""
    title, todo = job_words.failure(kind)
    message = job.error.message if job.error else "No reason was stored."
    st.error(f"**{title}.** {text.plain(message)}", icon=":material/error:")
    st.caption(f"What to do: {todo}")
    _again(job)


def _cancelled(job: Job) -> None:
    st.caption("Cancelled. It goes on from its last checkpoint where it has one, and from its beginning else.")
    _again(job)


def _again(job: Job) -> None:
    """Resume, or another try with other choices."""
    with st.container(horizontal=True, vertical_alignment="center"):
        _button("Resume", "resume", job, jobs.resume, icon=":material/resume:")
        if job.spec.localizer == BY_HAND:
            _to_surgery(job.spec)
        else:
            target, told = page_table.PAGES["launch"].link(), job_words.form_of(job.spec)
            st.page_link(target, label="Open in the form", icon=":material/edit:", query_params=told)
        _hide_button(job)


def _to_surgery(spec: RunSpec) -> None:
    """A region by hand is changed where it was made, under a run of its pair; nothing where no such run is left."""
    models, recipe = (spec.base, spec.finetuned), spec.options.get(BY_HAND)
    found = next((entry.id for entry in cache.entries() if (entry.base, entry.finetuned) == models), None)
    if found is not None and recipe:
        told = {address.RUN: found, BY_HAND: recipe if isinstance(recipe, str) else json.dumps(recipe)}
        surgery = page_table.PAGES["surgery"].link()
        st.page_link(surgery, label="Open in surgery", icon=":material/edit:", query_params=told)


_CARDS: dict[str, Callable[[Job], None]] = {
    "queued": _queued, "running": _running, "finished": _finished, "failed": _failed, "cancelled": _cancelled,
}  # fmt: skip


def resume_button(run_id: str) -> None:
    """Goes on with a run that ended early, from wherever it is listed."""
    st.button("Resume", key=f"jobs.resume.listed.{run_id}", on_click=_do, args=(run_id, jobs.resume))


def _button(label: str, name: str, job: Job, act: Callable[..., Job], icon: str) -> None:
    st.button(label, key=f"jobs.{name}.{job.run_id}", on_click=_do, args=(job.run_id, act), icon=icon)


def _do(run_id: str, act: Callable[..., Job]) -> None:
    """Cancels or resumes; what stands against it is said once."""
    st.session_state.setdefault(HIDDEN, set()).discard(run_id)
    st.session_state.setdefault(TOLD, {}).pop(run_id, None)
    try:
        act(cache.own_store(), run_id)
    except SkillvizError as error:
        st.session_state[PROBLEM] = str(error.args[0])


def _hide_button(job: Job) -> None:
    st.button("Hide", key=f"jobs.hide.{job.run_id}", on_click=_hide, args=(job.run_id,), help="Nothing is deleted.")


def _hide(run_id: str) -> None:
    st.session_state.setdefault(HIDDEN, set()).add(run_id)
