"""The page that starts a run: choose pair, task and search; the run is checked before it starts and can be watched."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import jobs_view, page
from skillviz.ui.pages.launch import models, search, task, view

page.begin_without_run("launch")
st.markdown(view.OPENING, help=about("localizer", "region", "graft"))
choices = models.Choices()
left, right = st.columns(2)
with left:
    models.pair(choices)
    task.task(choices)
with right:
    search.search(choices)
    search.data(choices)
    search.place(choices)
view.check_and_start(choices)
jobs_view.panel("run", view.started())
view.scroll_to_job()
