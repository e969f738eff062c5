"""The table of ended jobs; the chosen one opens as a card with its log and the next actions."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from skillviz import jobs
from skillviz.jobs.job import Job
from skillviz.runs.folder import OPEN
from skillviz.runs.run import Run
from skillviz.runs.store import Unfinished
from skillviz.show.briefs import run_labels
from skillviz.ui import cache, exports, jobs_view, page, show_code
from skillviz.ui.page_table import PAGES

OPENING = "Jobs keep running when you close this page. Time left is measured on this machine."
RUNS, STUDIES = "## Localizations", "## Studies"
MOST = 200  # rows of the table
SEEN = ("Status", "Job", "Ended (UTC)")  # the table's columns on the page


def ended() -> None:
    """Draws the table of finished, cancelled or failed jobs that no card above shows, and the chosen one."""
    show_code.show_list("jobs")
    with page.explained():
        studies, runs = jobs.list(cache.user_store(), finished=True, kind="study"), jobs.newest_first(cache.own_runs())
    if not studies and not runs:
        st.info("There are no jobs yet.", icon=":material/info:")
        st.page_link(PAGES["launch"].link(), label="Start a localization", icon=":material/play_circle:")
        return
    above = {*jobs_view.followed("run"), *jobs_view.followed("study")}
    listed: list[Job | Run | Unfinished] = [job for job in studies if not job.is_open and job.name not in above]
    listed += [run for run in runs if run.record.status not in OPEN and run.id not in above]
    if not listed:
        return
    shown = [each if isinstance(each, Job) else jobs.run_job(cache.user_store(), each) for each in listed[:MOST]]
    st.markdown("## Ended")
    labels = run_labels(cache.briefs())
    rows = pd.DataFrame([row(job, labels) for job in shown])
    chosen = st.dataframe(
        rows, hide_index=True, on_select="rerun", selection_mode="single-row", key="jobs.ended", column_order=SEEN,
        alt="Jobs that ended, with status and end",
    )  # fmt: skip
    exports.table_menu(rows, file="jobs", key="jobs", caption="Jobs that ended")
    if len(listed) > MOST:
        st.caption(f"The newest {MOST} of {len(listed):,} jobs.")
    places = [place for place in chosen["selection"]["rows"] if place < len(rows)]
    if not places:
        st.caption("Select a row (keyboard: Shift+Space) to see the log, open the result or resume the job.")
        return
    jobs_view.card(shown[places[0]].name, shown[places[0]].kind)


def row(job: Job, labels: Mapping[str, str]) -> dict[str, str]:
    """One row of the table: status, title, end (UTC), and the id for downloads."""
    is_run = job.kind == "run"
    finished = (job.run.finished or "") if is_run else ""
    return {
        "Status": job.status,
        "Job": jobs_view.title(job, labels) if is_run else f"study {job.name}",
        "Ended (UTC)": finished[:16].replace("T", " "),
        "Name": job.name,
    }
