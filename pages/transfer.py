"""Does the skill carry over? The models on other tasks with the same labels, without any training on them."""

import streamlit as st

from skillviz.show import measures
from skillviz.show import transfer as exhibits
from skillviz.show.glossary import about
from skillviz.ui import page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.transfer import view

run = page.begin("transfer")
of_run = page.scores(run, "test")
sentence = st.empty()
left, right = st.columns([1, 2], vertical_alignment="bottom")
with left:
    metric = view.metric_of(run)
with right:
    notes = view.notes_of(run)

sentence.markdown(exhibits.summary(notes, metric), help=about("ood", "graft", "paired", "discovery"))
scores = view.scores_by_task(run, of_run, notes)
guesses = measures.guesses(run.record, "test", metric)
levels = exhibits.levels(run.labels, guesses, notes, run.datasets[0]) if guesses else {}
left, right = st.columns(2)
with left:
    show(exhibits.states(scores, levels, metric, theme()), run.id)
with right:
    show(exhibits.differences(scores, metric, theme()), run.id)
view.details(run, notes)
