"""Which runs are there? The jobs as they go, and the library: filter, open, note, delete."""

import streamlit as st

from skillviz.ui import jobs_view, library_view, page, sentences
from skillviz.ui.glossary import about

entries = page.begin_library("runs")
st.markdown(sentences.library(*library_view.counts(entries)), help=about("localizer", "region", "graft"))
library_view.problem()
jobs_view.panel()
shown = library_view.filters(entries)
library_view.table(shown)
library_view.actions(shown)
library_view.unfinished()
