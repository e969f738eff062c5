"""The page "Jobs": running and waiting jobs with progress and time left, then ended jobs, newest first."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import jobs_view, page
from skillviz.ui.pages.jobs import view

page.begin_without_run("jobs")
st.markdown(view.OPENING, help=about("checkpoint"))
jobs_view.panel("run", heading=view.RUNS)
jobs_view.panel("study", heading=view.STUDIES)
view.ended()
