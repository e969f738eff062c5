"""The page "Compare runs": scores, curves, regions and specs of two to six runs, one of them the baseline."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import page
from skillviz.ui.pages.compare import compare_page, controls

entries = page.begin_library("compare")
sentence = st.empty()
compared = compare_page.compare(*controls.choose(entries))

sentence.markdown(compare_page.summary(compared), help=about("paired", "debiased", "graft", "localizer"))
compare_page.differences(compared)
compare_page.scores(compared)
compare_page.beyond_null(compared)
compare_page.not_compared(compared)
compare_page.curves(compared)
compare_page.areas(compared)
compare_page.shared(compared)
compare_page.specs(compared)
