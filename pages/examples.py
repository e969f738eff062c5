"""Which examples does the graft get right, and why? All of them, one of them from near, class by class."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import page
from skillviz.ui.pages.examples import detail, view

run = page.begin("examples")
found = view.run_examples(run)

st.markdown(view.sentence(run, found), help=about("agreement", "mcnemar", "graft"))
found = view.with_texts(run, found)
chosen = view.linked(run, found, view.filters(run, found))
closer = st.container()
view.by_class(run, found)
with closer:  # the last to be filled: it may wait for the models
    detail.look_closer(run, found, chosen)
