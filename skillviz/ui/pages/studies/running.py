"""The user's studies as jobs: their states for the list, the progress bar in place of the start button, and Resume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import streamlit as st

from skillviz import jobs
from skillviz.jobs.backend import Backend
from skillviz.jobs.job import Job
from skillviz.studies.spec import StudySpec
from skillviz.studies.store import StudyFolder, study_path
from skillviz.ui import cache, jobs_view

ENDED = {
    "finished": "It is **finished**",
    "failed": "It **failed**",
    "cancelled": "It was **cancelled**",
    "stopped": "It was **stopped** before its end",
    "unknown": "It **may still run** on another machine",
}
UNDER_WAY = "You can close this page; the study keeps running. [Log and cancel](#under-way)"


def states() -> Mapping[str, str]:
    """The status of each of the user's studies by its folder, and the status of a running study by its name too.

    The list shows a shipped study in place of the user's own study with the same name until the latter has tables. Only
    the status of a running study is then shown for the shipped one.
    """
    studies = _studies()
    running = {job.path.name: job.status for job in studies if job.is_open}
    return running | {str(job.path.resolve()): job.status for job in studies}


def in_place_of_button(study: StudySpec) -> bool:
    """True if this study is running; draws its bar in place of the button, since the cards above are out of sight.

    For a study that ended in this session, draws its outcome above the button.
    """
    job = _of(study)
    if job is None or not job.is_open:
        if job is not None and jobs_view.is_followed(job):
            st.markdown(f"{ENDED.get(job.status, job.status)}: [see above](#under-way).")
        return False
    st.fragment(_bar, run_every=jobs_view.EVERY)(study)
    return True


def _of(study: StudySpec) -> Job | None:
    path = study_path(cache.user_store().root, study)
    return next((job for job in _studies() if job.path == path), None)


def _bar(study: StudySpec) -> None:
    """Draws the bar of a running study; the card above redraws the page when the study ends."""
    job = _of(study)
    if job is not None and job.is_open:
        jobs_view.bar(job, jobs.progress(cache.user_store(), job.name))
        st.markdown(UNDER_WAY)


def start(file: Path, workers: int, backend: Backend) -> None:
    """Starts a separate process, or submits the steps to a cluster; raises a SkillvizError."""
    jobs_view.start_following(jobs.start_study(file, cache.user_store(), workers, backend))


def begun_anew(study: StudyFolder) -> None:
    """Shows a note if the user's own study has no tables yet and a stored one of the same name is shown instead."""
    job = _named(study.name)
    if job is not None and job.path != study.path:
        st.info(
            f"You started this study again, and yours is **{job.status}**. Until it has tables, "
            "the stored ones are shown.",
            icon=":material/history:",
        )


def resume_button(name: str) -> None:
    """Draws a button that resumes the user's own study if it ended early."""
    job = _named(name)
    if job is not None and job.is_resumable:
        jobs_view.resume_button(job.name, "Resume it")


def _studies() -> Sequence[Job]:
    return jobs.list(cache.user_store(), finished=True, kind="study")


def _named(name: str) -> Job | None:
    return next((job for job in _studies() if job.name == name), None)
