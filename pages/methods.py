"""The page "Grafting vs other small updates": grafts beside re-training, BitFit, LoRA and full fine-tuning."""

import streamlit as st

from skillviz.ui import page
from skillviz.ui.pages import methods
from skillviz.ui.pages.methods import rivals

study = page.begin_studies("methods")
sentence = st.empty()
shown = methods.choose(study)

sentence.markdown(methods.summary(shown), help=methods.terms(shown))
methods.on_own_task(shown)
methods.on_other_data(shown)
methods.on_nulls(shown)
rivals(shown.base, shown.selection.task)
methods.hidden_skills()
methods.notes(shown)
