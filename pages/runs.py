"""The page "Runs": running jobs, and the library of runs to filter, open, compare, download, annotate and delete."""

import streamlit as st

from skillviz.show import sentences
from skillviz.show.glossary import about
from skillviz.ui import jobs_view, page
from skillviz.ui.pages import runs
from skillviz.ui.run_bar import variants_switch

briefs = page.begin_library("runs")
with st.container(horizontal=True, vertical_alignment="center"):
    summary = st.container(width="content")
    variants_switch(briefs)
runs.outcome()
jobs_view.panel("run")
shown = runs.filters(briefs)
summary.markdown(sentences.library(*runs.counts(shown)), help=about("localizer", "region", "graft"))
runs.actions(briefs, shown)
runs.groups(briefs, shown)
runs.plot(shown)
runs.unfinished()
