"""Studies. The stored studies, what came out of each, and a form that starts one."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import cache, jobs_view, page
from skillviz.ui.pages.studies import running, start, view

page.begin_without_run("studies")
studies = cache.studies()
st.markdown(view.summary(studies), help=about("study", "localizer", "graft"))
jobs_view.panel("study")
view.listing(studies, running.states())
view.details(view.choose(studies))
start.draw()  # last: its estimate reads models and data
