"""The page "Do tasks share parameters?": regions of one multi-task model, the gain of each graft, and any union."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import page, study_choice
from skillviz.ui.pages.tasks import view

study = page.begin_studies("tasks")
tables = view.read(study)
finding, settings = st.columns([6, 1])
with settings.popover("Settings", width="stretch"):
    kind, which = view.kind_of(), view.which_of(tables)

finding.markdown(view.summary(tables, kind), help=about("multitask", "related", "overlap", "matched"))
left, right = st.columns(2)
with left:
    view.overlap(tables, kind)
with right:
    view.gains(tables, which)
view.transfers(tables)
view.union(tables)
view.stability(tables)
study_choice.notes((study,))
