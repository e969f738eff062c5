"""The page "Compare runs": scores, curves, regions and specs of two to six runs, one of them the baseline."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import page
from skillviz.ui.pages import compare

briefs = page.begin_library("compare")
sentence = st.empty()
compared = compare.compare(*compare.choose(briefs))

headline = compare.summary(compared.lead, compared.baseline, compared.state)
sentence.markdown(headline, help=about("paired", "debiased", "graft", "localizer"))
compare.differences(compared)
compare.scores(compared)
compare.beyond_null(compared)
compare.not_compared(compared)
compare.curves(compared)
compare.areas(compared)
compare.shared(compared)
compare.specs(compared)
