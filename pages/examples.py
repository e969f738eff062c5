"""Which examples change? All of them, one of them from near, class by class."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import page
from skillviz.ui.pages.examples import detail, view

run = page.begin("examples")
examples = view.run_examples(run)

st.markdown(view.sentence(run, examples), help=about("agreement", "mcnemar", "graft"))
examples = view.with_texts(run, examples)
chosen = view.linked(run, examples, view.filters(run, examples))
closer = st.container()
view.by_slice(run, examples)
view.by_class(run, examples)
with closer:  # the last to be filled: it may wait for the models
    detail.look_closer(run, examples, chosen)
