"""The page "Studies": a list of the stored studies, the details of one, and a form that starts another."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import cache, jobs_view, page
from skillviz.ui.pages.studies import running, start, view

page.begin_without_run("studies")
studies = cache.studies()
sentence = st.empty()
shown, study, row = view.choose(studies)

sentence.markdown(view.summary(studies, shown, study), help=about("study", "verdict", "discovery"))
if shown == view.ONE:
    view.details(study, row)
else:
    jobs_view.panel("study")
    if shown == view.LIST:
        view.listing(studies, running.states())
    else:
        start.draw()
