"""The page "Jobs": running and waiting jobs with progress and time left, then ended jobs, newest first."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import jobs_view, page
from skillviz.ui.pages import jobs

page.begin_without_run("jobs")
st.markdown(jobs.OPENING, help=about("checkpoint"))
jobs_view.panel("run", heading=jobs.RUNS)
jobs_view.panel("study", heading=jobs.STUDIES)
jobs.ended()
