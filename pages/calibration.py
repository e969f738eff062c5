"""How sure is the model, and is it right to be? Confidence and reliability, fine-tuned beside grafted."""

import streamlit as st

from skillviz.plots.calibration import bin_counts, confidence_histogram, reliability_diagram
from skillviz.ui import alt, judged, measures, page
from skillviz.ui.chart import chart, theme
from skillviz.ui.glossary import about

run = page.begin("calibration")
choice = judged.controls_of(run)
found, labels = measures.state_logits(page.table(run, "predictions"), run.record, choice.split, choice.states)
bins = measures.reliability_bins(found, labels, choice.bins, choice.equal_mass)

judged.verdicts(run, choice, found, labels)
left, right = st.columns(2)
with left:
    chart(
        confidence_histogram(bins, theme=theme(), height=420),
        name="confidence",
        title="How sure it is",
        reads="how many examples are predicted with which confidence. Piled up at the right: always sure.",
        alt=alt.histogram(bins),
        table=bins,
        run_id=run.id,
        help=about("confidence"),
    )
with right:
    chart(
        reliability_diagram(bins, theme=theme(), height=420),
        name="reliability",
        title="Whether it is right to be",
        reads="on the diagonal, confidence is accuracy; below it the model is too sure, above it not sure enough. "
        "Large marks are bins with many examples, vertical lines 95 % intervals.",
        alt=alt.reliability(bins),
        table=bins,
        run_id=run.id,
        help=about("ece"),
    )
chart(
    bin_counts(bins, theme=theme()),
    name="counts",
    title="Examples in each bin",
    reads="bins with few examples say little: their intervals above are wide.",
    alt=alt.histogram(bins),
    table=bins,
    run_id=run.id,
)
