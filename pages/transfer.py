"""The page "Does the skill transfer?": scores on other tasks with the same labels, without training on them."""

import streamlit as st

from skillviz.show import measures
from skillviz.show import transfer as exhibits
from skillviz.ui import page, show_code
from skillviz.ui.chart import show, theme
from skillviz.ui.pages import transfer

run = page.begin("transfer")
transfer.refuse_options(run)
of_run = page.stored_scores(run, "test")
finding, figures = st.container(), st.container()
notes = transfer.notes_of(run)
if notes:
    with finding:
        metric = transfer.finding(run, notes)
    scores = {run.datasets[0]: of_run, **{note.name: note.scores for note in notes}}
    guesses = measures.guesses(run.record, "test", metric)
    levels = exhibits.levels(run.labels, guesses, notes, run.datasets[0]) if guesses else {}
    left, right = figures.columns(2)
    with left:
        show(exhibits.states(scores, levels, metric, theme()), run.id)
    with right:
        show(exhibits.differences(scores, metric, theme()), run.id)
    if notes == run.record.transfers:  # what is computed live is not stored
        show_code.show("transfer", run=run.id, metric=metric)
transfer.details(run, notes)
