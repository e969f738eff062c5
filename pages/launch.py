"""Localize a skill: two models, a task, a search, a place; checked before it starts, watched while it runs."""

import streamlit as st

from skillviz.ui import jobs_view, launch_choices, launch_search, launch_task, launch_view, launch_words, page
from skillviz.ui.glossary import about

page.begin_without_run("launch")
st.markdown(launch_words.OPENING, help=about("localizer", "region", "graft"))
choices = launch_choices.begin()
left, right = st.columns(2)
with left:
    launch_choices.pair(choices)
    launch_task.task(choices)
with right:
    launch_search.search(choices)
    launch_search.data(choices)
    launch_search.place(choices)
launch_view.check_and_start(choices)
jobs_view.panel(launch_view.started())
