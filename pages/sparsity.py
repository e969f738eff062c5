"""How small can the region be? A metric by region size, one line a localizer, over all runs of the same pair."""

import streamlit as st

from skillviz.plots.sparsity import by_size, metric_by_size
from skillviz.ui import alt, controls, measures, page, sentences, sweep
from skillviz.ui.chart import chart, theme
from skillviz.ui.glossary import about

run = page.begin("sparsity")
curve, split = sweep.pair_curve(run)
metric = controls.select(
    "metric",
    "Metric",
    measures.offered(curve, run.record),
    run.record.task.metric,
    shown=sentences.metric_title,
    help=about("accuracy", "ece", "nll", "agreement"),
    width=320,
)
levels = measures.levels(run.record, split, metric)
own_size = measures.own_sizes(curve)
points = by_size(curve, metric, own_size)

st.markdown(sentences.sparsity(points, metric, levels.get("finetuned")), help=about("localizer", "size", "seed"))
chart(
    metric_by_size(curve, metric, references=levels, own_size=own_size, theme=theme(), height=520),
    name="sparsity",
    title=f"{sentences.metric_title(metric)} by region size",
    reads=sentences.sparsity_reads(points),
    alt=alt.sparsity(points, metric),
    table=points,
    run_id=run.id,
    help=about("seed", "chance"),
)
sweep.runs_behind(run)
