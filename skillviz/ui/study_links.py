"""Links from a study to the other pages that show it."""

from __future__ import annotations

import streamlit as st

from skillviz.studies.store import StudyFolder
from skillviz.ui import page_table as pages
from skillviz.ui import study_choice

# the page that shows an experiment's tables best, beside Paper and Studies
PAGES = {
    "table1": "methods", "table3": "methods", "table8": "methods", "figure4": "methods", "figure5": "methods",
    "figure8": "tasks", "table4": "continual",
}  # fmt: skip
ICONS = {"paper": ":material/menu_book:", "studies": ":material/table_view:"}
LABELS = {"paper": "Beside the paper", "studies": "Its tables and pictures"}


def links(study: StudyFolder, here: str) -> None:
    """The pages that show this study, but for the one that it is shown on."""
    name = study.record.experiment or ""
    own = [PAGES[name]] if name in PAGES else []
    with st.container(horizontal=True):
        for target in [page for page in ("paper", "studies", *own) if page != here and (name or page == "studies")]:
            entry = pages.PAGES[target]
            told = {study_choice.STUDY: study.name, **({"item": name} if target == "paper" else {})}
            label = LABELS.get(target, f"On the page {entry.title}")
            st.page_link(entry.link(), label=label, icon=ICONS.get(target, ":material/bar_chart:"), query_params=told)
