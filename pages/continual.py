"""The page "Learning tasks in sequence": tasks learned one after the other, naively and within their regions."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import page, study_choice
from skillviz.ui.pages import continual

study = page.begin_studies("continual")
tables = continual.read(study)
finding, settings = st.columns([6, 1])
with settings.popover("Settings", width="stretch"):
    metric = continual.metric_of(tables)

finding.markdown(continual.finding(tables, metric), help=about("continual", "paired"))
continual.stages(tables, metric)
continual.beside_one_task(tables, metric)
study_choice.notes((study,))
