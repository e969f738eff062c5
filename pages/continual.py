"""Does a new skill cost the old ones? Tasks learned one after the other, naively and within their regions."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import page
from skillviz.ui.pages.continual import view

study = page.begin_studies("continual")
found = view.read(study)
sentence = st.empty()
metric = view.metric_of(found)

sentence.markdown(view.summary(found, metric), help=about("continual", "paired"))
view.stages(found, metric)
view.notes(found)
