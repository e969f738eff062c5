"""The page "Do tasks share parameters?": regions of one multi-task model, the gain of each graft, and any union."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import page, show_code, study_choice
from skillviz.ui.pages import tasks

study = page.begin_studies("tasks")
tables = tasks.read(study)
finding, settings = st.columns([6, 1])
with settings.popover("Settings", width="stretch"):
    kind, which = tasks.kind_of(), tasks.which_of(tables)

finding.markdown(
    tasks.isolation(tables.tables["isolation"], kind), help=about("multitask", "related", "overlap", "matched")
)
left, right = st.columns(2)
with left:
    tasks.overlap(tables, kind)
    show_code.show("tasks", study=study.name, kind=kind, order=tables.tasks)
with right:
    tasks.gains(tables, which)
tasks.transfers(tables)
tasks.union(tables)
tasks.stability(tables)
study_choice.notes((study,))
