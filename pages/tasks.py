"""The page "Do tasks share parameters?": regions of one multi-task model, the gain of each graft, and any union."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import page, study_choice
from skillviz.ui.pages.tasks import tasks_page

study = page.begin_studies("tasks")
tables = tasks_page.read(study)
finding, settings = st.columns([6, 1])
with settings.popover("Settings", width="stretch"):
    kind, which = tasks_page.kind_of(), tasks_page.which_of(tables)

finding.markdown(tasks_page.summary(tables, kind), help=about("multitask", "related", "overlap", "matched"))
left, right = st.columns(2)
with left:
    tasks_page.overlap(tables, kind)
with right:
    tasks_page.gains(tables, which)
tasks_page.transfers(tables)
tasks_page.union(tables)
tasks_page.stability(tables)
study_choice.notes((study,))
