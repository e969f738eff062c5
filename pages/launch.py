"""The page that starts a run: choose pair, task and search; the run is checked before it starts and can be watched."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import jobs_view, page
from skillviz.ui.pages.launch import launch_page, models, search, task

page.begin_without_run("launch")
st.markdown(launch_page.OPENING, help=about("localizer", "region", "graft"))
choices = models.Choices()
left, right = st.columns(2)
with left:
    models.pair(choices)
    task.task(choices)
with right:
    search.search(choices)
    search.data(choices)
    search.place(choices)
launch_page.check_and_start(choices)
jobs_view.panel("run", launch_page.started())
launch_page.scroll_to_job()
