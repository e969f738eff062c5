"""Does it come out as in the paper? Published tables and findings beside our studies of them."""

import streamlit as st

from skillviz.ui import page
from skillviz.ui import paper_view as view
from skillviz.ui.glossary import about

page.begin_without_run("paper")
sentence = st.empty()
found = view.choose()

sentence.markdown(view.summary(found), help=about("published", "verdict"))
view.study(found)
view.claims(found)
view.values(found)
view.told(found)
