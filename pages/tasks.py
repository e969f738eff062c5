"""Do the skills of several tasks share parameters? Regions in one multi-task model, what each gives, and any union."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import page
from skillviz.ui.pages.tasks import view

study = page.begin_studies("tasks")
found = view.read(study)
sentence = st.empty()
with st.container(horizontal=True, vertical_alignment="bottom"):
    kind, which = view.kind_of(), view.which_of(found)

sentence.markdown(view.summary(found, kind), help=about("multitask", "related", "overlap", "gain"))
left, right = st.columns(2)
with left:
    view.overlap(found, kind)
with right:
    view.gains(found, which)
view.union(found)
view.stability(found)
view.notes(found)
