"""Paper vs skillviz. Published tables and findings beside our studies of them."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import page
from skillviz.ui.pages.paper import view

page.begin_without_run("paper")
sentence = st.empty()
item = view.choose()

sentence.markdown(view.summary(item), help=about("published", "verdict", "discovery"))
view.study(item)
view.claims(item)
view.values(item)
view.further(item)
