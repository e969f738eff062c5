"""How do several runs differ? Two to six side by side, one of them the baseline: scores, curves, regions, specs."""

import streamlit as st

from skillviz.ui import compare_choice, page
from skillviz.ui import compare_view as view
from skillviz.ui.glossary import about

entries = page.begin_library("compare")
sentence = st.empty()
sides, baseline = compare_choice.choose(entries)
found = view.comparison(sides, baseline)

sentence.markdown(view.summary(found), help=about("paired", "graft", "localizer"))
view.who_is_who(found)
view.scores(found)
view.curves(found)
view.shared(found)
view.specs(found)
