"""Does a new skill cost the old ones? Tasks learned one after the other, naively and within their regions."""

import streamlit as st

from skillviz.ui import continual_view as view
from skillviz.ui import page
from skillviz.ui.glossary import about

study = page.begin_studies("continual", view.EXPERIMENTS)
found = view.read(study)
sentence = st.empty()
metric = view.metric_of(found)

sentence.markdown(view.summary(found, metric), help=about("continual", "paired"))
view.stages(found, metric)
view.notes(found)
