"""The page "Studies": a list of the stored studies, the details of one, and a form that starts another."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import cache, jobs_view, page, show_code
from skillviz.ui.pages.studies import start, studies_page

page.begin_without_run("studies")
studies = cache.studies()
sentence = st.empty()
shown, study, row = studies_page.choose(studies)

sentence.markdown(studies_page.summary(studies, shown, study), help=about("study", "verdict", "discovery"))
if shown == studies_page.ONE:
    studies_page.details(study, row)
else:
    jobs_view.panel("study")
    if shown == studies_page.LIST:
        studies_page.listing(studies, start.states())
    else:
        start.draw()
show_code.show_list("studies")
