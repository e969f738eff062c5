"""Localize a skill: two models, a task, a search, a place; checked before it starts, watched while it runs."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import jobs_view, page
from skillviz.ui.pages.launch import models as launch_choices
from skillviz.ui.pages.launch import search as launch_search
from skillviz.ui.pages.launch import task as launch_task
from skillviz.ui.pages.launch import view, words

page.begin_without_run("launch")
st.markdown(words.OPENING, help=about("localizer", "region", "graft"))
choices = launch_choices.begin()
left, right = st.columns(2)
with left:
    launch_choices.pair(choices)
    launch_task.task(choices)
with right:
    launch_search.search(choices)
    launch_search.data(choices)
    launch_search.place(choices)
view.check_and_start(choices)
jobs_view.panel("run", view.started())
