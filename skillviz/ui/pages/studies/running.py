"""Studies under way: which step of how many, what it is, minutes left; cancel, and go on. All of it read from disk.

Only the panel is drawn again while one runs; the page itself follows once, when one begins or ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import streamlit as st

from skillviz.core import formats
from skillviz.errors import SkillvizError
from skillviz.jobs import study_jobs
from skillviz.jobs.study_jobs import FAILED, FINISHED, RUNNING, STOPPED, StudyJob
from skillviz.show import text
from skillviz.studies.spec import StudySpec
from skillviz.studies.store import StudyFolder, study_path
from skillviz.ui import address, cache, study_choice
from skillviz.ui.pages.studies import words

CANCELLED = "cancelled"
EVERY = 1.5  # seconds between two looks at a study under way
LOG_LINES = 15
FOLLOWED, HIDDEN, PROBLEM = "studies.followed", "studies.hidden", "studies.problem"


def panel() -> None:
    """The studies of this session that run or ran; drawn again while one runs."""
    jobs = _now()
    followed = _followed(jobs)
    _tell_problem()
    if not followed:
        return
    st.markdown("## Under way")
    open_ones = _open(jobs)
    st.fragment(_live, run_every=EVERY if open_ones else None)(open_ones)


def states() -> dict[str, str]:
    """The state of each of the user's studies by its folder, as it really is now; of a running one by its name too.

    A study that ships stands in the list for the user's own of its name until that has tables: only that one is being
    made anew is true of both.
    """
    jobs = _now()
    running = {job.path.name: RUNNING for job in jobs if job.state == RUNNING}
    return running | {str(job.path.resolve()): _state(job) for job in jobs}


def _state(job: StudyJob) -> str:
    """Its state; of one that was stopped, whether somebody cancelled it."""
    is_cancelled = job.state == STOPPED and job.record is not None and job.record.status == CANCELLED
    return CANCELLED if is_cancelled else job.state


def in_place_of_button(study: StudySpec) -> bool:
    """Whether this very study runs: its bar then stands where the button was, as the cards above are out of sight.

    Of one that ended in this session it says how, above the button.
    """
    job = _of(study)
    if job is not None and job.state == RUNNING:
        st.fragment(_here, run_every=EVERY)(study)
        return True
    if job is not None and job.name in _followed([job]):
        st.markdown(words.ended(_state(job)))
    return False


def _of(study: StudySpec) -> StudyJob | None:
    path = study_path(cache.own_store().root, study)
    return next((job for job in _now() if job.path == path), None)


def _here(study: StudySpec) -> None:
    """The bar of a study under way; the card above draws the page anew when it ends."""
    job = _of(study)
    if job is not None and job.state == RUNNING:
        _bar(job)
        st.markdown(words.UNDER_WAY)


def start(file: Path, workers: int) -> None:
    """Begins a process of its own; raises a SkillvizError."""
    job = study_jobs.start_study(file, cache.own_store(), workers)
    st.session_state.setdefault(HIDDEN, set()).discard(job.name)
    st.session_state.setdefault(FOLLOWED, []).append(job.name)


def _now() -> Sequence[StudyJob]:
    return study_jobs.study_jobs(cache.own_store())


def _open(jobs: Sequence[StudyJob]) -> frozenset[str]:
    return frozenset(job.name for job in jobs if job.state == RUNNING)


def _followed(jobs: Sequence[StudyJob]) -> list[str]:
    """The names to show: what ran at some time in this session stays, until it is hidden."""
    kept: list[str] = st.session_state.setdefault(FOLLOWED, [])
    hidden: set[str] = st.session_state.setdefault(HIDDEN, set())
    kept += [name for name in sorted(_open(jobs)) if name not in kept]
    return [name for name in dict.fromkeys(kept) if name not in hidden]


def _live(before: frozenset[str]) -> None:
    """The cards; the whole page is run anew once where a study began or ended since it was."""
    jobs = _now()
    if _open(jobs) != before:
        st.rerun()
    _tell_problem()
    by_name = {job.name: job for job in jobs}
    for name in _followed(jobs):
        if name in by_name:
            _card(by_name[name])


def _card(job: StudyJob) -> None:
    with st.container(border=True, key=f"study-{job.path.name}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            colour, sign = words.STATUS[job.state]
            st.badge(job.state, icon=sign, color=colour)  # type: ignore[arg-type]
            st.markdown(f"`{job.name}`", width="content")
        _CARDS[job.state](job)
        if job.state != FINISHED:
            with st.expander("Log", key=f"study.log.{job.path.name}"):
                st.code(study_jobs.study_log(cache.own_store(), job.name, LOG_LINES) or "nothing yet", language=None)


def _bar(job: StudyJob) -> None:
    """Which step of how many."""
    if job.step is None or job.steps is None:
        st.progress(0.0, "It begins: models and data are looked at, and its device may have another job.")
    else:
        share = (job.step - 1) / max(job.steps, 1)
        st.progress(share, words.progress(job.step, job.steps, text.plain(job.title), job.left))


def _running(job: StudyJob) -> None:
    _bar(job)
    with st.container(horizontal=True, vertical_alignment="center"):
        _button("Cancel", job, study_jobs.cancel_study, ":material/stop_circle:")
        st.caption("What is finished is kept: started again, it goes on there.")


def _finished(job: StudyJob) -> None:
    st.markdown("All its steps are finished; its tables, pictures and verdicts stand below.")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Show it", key=f"study.show.{job.path.name}", on_click=address.keep, args=(study_choice.STUDY, job.name)
        )
        _hide_button(job)


def _failed(job: StudyJob) -> None:
    lines = [f"- **{text.plain(title)}**: {text.plain(reason)}" for title, reason in job.failed.items()]
    if not lines:
        st.error("It could not begin: the log says why.", icon=":material/error:")
    else:
        st.error(f"{formats.counted(len(lines), 'step')} failed.", icon=":material/error:")
        st.markdown("\n".join(lines))
    _again(job)


def _stopped(job: StudyJob) -> None:
    st.caption(words.stopped(job.finished_steps))
    _again(job)


def _again(job: StudyJob) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        _button("Go on", job, study_jobs.resume_study, ":material/resume:")
        _hide_button(job)


_CARDS: dict[str, Callable[[StudyJob], None]] = {
    RUNNING: _running, FINISHED: _finished, FAILED: _failed, STOPPED: _stopped,
}  # fmt: skip


def begun_anew(study: StudyFolder) -> None:
    """Says so where the user's own study has no tables yet and a stored one of its name stands in."""
    own = next((job for job in _now() if job.name == study.name), None)
    if own is not None and own.path != study.path:
        st.info(words.begun_anew(own.state), icon=":material/history:")


def go_on_button(name: str) -> None:
    """Goes on with a study of the user's own that failed or was stopped; nothing where there is none such."""
    job = next((job for job in _now() if job.name == name), None)
    if job is not None and job.state in (FAILED, STOPPED):
        _button("Go on with it", job, study_jobs.resume_study, ":material/resume:", place="details")


def _button(label: str, job: StudyJob, act: Callable[..., object], icon: str, place: str = "card") -> None:
    key = f"study.{label.lower()}.{place}.{job.path.name}"
    st.button(label, key=key, on_click=_do, args=(job.name, act), icon=icon)


def _do(name: str, act: Callable[..., object]) -> None:
    """Cancels or goes on; what stands against it is said once."""
    st.session_state.setdefault(HIDDEN, set()).discard(name)
    try:
        act(cache.own_store(), name)
    except SkillvizError as error:
        st.session_state[PROBLEM] = str(error.args[0])


def _tell_problem() -> None:
    if sentence := st.session_state.pop(PROBLEM, ""):
        st.error(text.plain(sentence), icon=":material/error:")


def _hide_button(job: StudyJob) -> None:
    st.button("Hide", key=f"study.hide.{job.path.name}", on_click=_hide, args=(job.name,), help="Nothing is deleted.")


def _hide(name: str) -> None:
    st.session_state.setdefault(HIDDEN, set()).add(name)
