"""The page "Jobs": running and waiting jobs with progress and time left, then ended jobs, newest first."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import jobs_view, page
from skillviz.ui.pages.jobs import jobs_page

page.begin_without_run("jobs")
st.markdown(jobs_page.OPENING, help=about("checkpoint"))
jobs_view.panel("run", heading=jobs_page.RUNS)
jobs_view.panel("study", heading=jobs_page.STUDIES)
jobs_page.ended()
