"""The page "Grafting vs other small updates": grafts beside re-training, BitFit, LoRA and full fine-tuning."""

import streamlit as st

from skillviz.ui import page
from skillviz.ui.pages.methods import hidden_skills, view
from skillviz.ui.pages.methods.rivals import rivals

study = page.begin_studies("methods")
sentence = st.empty()
shown = view.choose(study)

sentence.markdown(view.summary(shown), help=view.terms(shown))
view.on_own_task(shown)
view.on_other_data(shown)
view.on_nulls(shown)
rivals(shown.base, shown.selection.task)
hidden_skills.board()
view.notes(shown)
