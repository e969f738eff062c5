"""Which examples does the graft get right, and why? All of them, one of them from near, class by class."""

import streamlit as st

from skillviz.ui import classes_view, examples_linked, examples_view, near_example, page
from skillviz.ui.glossary import about

run = page.begin("examples")
found = examples_view.found(run)

st.markdown(examples_view.sentence(run, found), help=about("agreement", "mcnemar", "graft"))
found = examples_view.with_texts(run, found)
chosen = examples_linked.linked(run, found, examples_view.filters(run, found))
closer = st.container()
classes_view.by_class(run, found)
with closer:  # the last to be filled: it may wait for the models
    near_example.near(run, found, chosen)
