"""The page "How much of the skill is in this region?": the scores of the three models, and the search."""

from functools import partial

import streamlit as st

from skillviz.show import measures, sentences
from skillviz.show import overview as exhibits
from skillviz.show.briefs import headline_split
from skillviz.show.glossary import about
from skillviz.show.report.page import report
from skillviz.ui import cards, page, presenter, run_list, show_code
from skillviz.ui.chart import show, theme
from skillviz.ui.chip import chip
from skillviz.ui.pages.overview import gain_card, overview_page

run = page.begin("overview")
record, split = run.record, headline_split(run.record)
scores = page.stored_scores(run, split)
history = measures.history_of(page.stored_table(run, "history", needed=False), record.size)

show_code.show("overview", run=run.id, split=split)
st.markdown(sentences.restored(record, scores), help=about("graft", "region", "recovered", "paired", "debiased"))
if (line := sentences.calibration_line(record, scores)) is not None:
    verdict, words = line
    chip(verdict, of=words, help=about("paired"))
overview_page.null_line(record, split)
left, right = presenter.columns(2)
with left:
    show(exhibits.states(record, scores, split, theme()), run.id)
with right:
    if len(history) < 2:
        cards.one_step(record, measures.last_loss(history))
    else:
        show(exhibits.history(history, theme()), run.id)
cards.state_cards(record, scores)
overview_page.nulls(run, split)
gain_card.section(run, split)
cards.evidence(record, scores)
st.caption(sentences.basis(scores, record, split))
overview_page.generalization(run, split)
overview_page.details(run, partial(report, run, run_list.runs_of(run_list.pair_briefs(run))))
