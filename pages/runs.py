"""Runs. The jobs as they go, and the library: filter, open, note, delete."""

import streamlit as st

from skillviz.show import sentences
from skillviz.show.glossary import about
from skillviz.ui import jobs_view, page
from skillviz.ui.pages.runs import view

entries = page.begin_library("runs")
st.markdown(sentences.library(*view.counts(entries)), help=about("localizer", "region", "graft"))
view.problem()
jobs_view.panel("run")
shown = view.filters(entries)
view.table(shown)
view.actions(shown)
view.unfinished()
