"""How much of the skill fits into this region? The three models side by side, and how the region was found."""

import streamlit as st

from skillviz.plots.history import search_history
from skillviz.plots.overview import state_comparison
from skillviz.ui import alt, cards, measures, page, provenance, sentences
from skillviz.ui.chart import chart, theme
from skillviz.ui.entries import headline_split
from skillviz.ui.glossary import about

run = page.begin("overview")
record, split = run.record, headline_split(run.record)
scores = page.scores(run, split)
history = measures.history_of(page.table(run, "history", needed=False), record.size)
states = measures.state_scores(scores)

st.markdown(sentences.overview(record, scores), help=about("graft", "region", "recovered", "paired"))
cards.state_cards(record, scores)
st.caption(cards.basis(scores, record, split))
cards.evidence(record, scores)

left, right = st.columns(2)
with left:
    chart(
        state_comparison(
            states,
            (record.task.metric, "ece", "nll"),
            references=measures.guesses(record, split, record.task.metric),
            theme=theme(),
            height=620,
        ),
        name="states",
        title="The models side by side",
        reads="one mark a model, its line the 95 % interval over examples. Right is better in the top panel, left in "
        "the two below. Temperature-scaled is the fine-tuned model with its confidence fitted on validation data.",
        alt=alt.overview(states),
        table=states,
        run_id=run.id,
    )
with right:
    if len(history) < 2:
        cards.one_step(record, measures.last_loss(history))
    else:
        chart(
            search_history(history, theme=theme(), height=620),
            name="history",
            title="How the region was found",
            reads="above, the training loss of the graft at each step; below, how many entries the step switched on "
            "(up) and off (down, hatched).",
            alt=alt.history(history),
            table=history,
            run_id=run.id,
        )
provenance.details(run)
