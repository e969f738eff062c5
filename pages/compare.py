"""The page "Compare runs": scores, curves, regions and specs of two to six runs, one of them the baseline."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import page
from skillviz.ui.pages.compare import controls, view

entries = page.begin_library("compare")
sentence = st.empty()
compared = view.compare(*controls.choose(entries))

sentence.markdown(view.summary(compared), help=about("paired", "debiased", "graft", "localizer"))
view.differences(compared)
view.scores(compared)
view.beyond_null(compared)
view.not_compared(compared)
view.curves(compared)
view.areas(compared)
view.shared(compared)
view.specs(compared)
