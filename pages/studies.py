"""Which experiments have been made? The stored studies, what came out of each, and a form that starts one."""

import streamlit as st

from skillviz.ui import cache, page, studies_words, study_running, study_start
from skillviz.ui import studies_view as view
from skillviz.ui.glossary import about

page.begin_without_run("studies")
studies = cache.studies()
st.markdown(studies_words.summary(studies), help=about("study", "localizer", "graft"))
study_running.panel()
view.listing(studies, study_running.states())
view.details(view.choose(studies))
study_start.form()  # last: its estimate reads models and data
