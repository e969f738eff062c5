"""The page "Grafting vs other small updates": grafts beside re-training, BitFit, LoRA and full fine-tuning."""

import streamlit as st

from skillviz.ui import page
from skillviz.ui.pages.methods import hidden_skills, methods_page
from skillviz.ui.pages.methods.rivals import rivals

study = page.begin_studies("methods")
sentence = st.empty()
shown = methods_page.choose(study)

sentence.markdown(methods_page.summary(shown), help=methods_page.terms(shown))
methods_page.on_own_task(shown)
methods_page.on_other_data(shown)
methods_page.on_nulls(shown)
rivals(shown.base, shown.selection.task)
hidden_skills.board()
methods_page.notes(shown)
