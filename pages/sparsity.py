"""How small can the region be? A metric by region size, one line a localizer, over all runs of the same pair."""

import streamlit as st

from skillviz.core.metrics import HEADLINE, metric_heading
from skillviz.show import measures
from skillviz.show import sparsity as exhibits
from skillviz.show.glossary import about
from skillviz.ui import controls, page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.sparsity import sweep

run = page.begin("sparsity")
curve, split = sweep.pair_curve(run)
metric = controls.select(
    "metric",
    "Metric",
    measures.offered(curve, run.record),
    run.record.task.metric,
    shown=metric_heading,
    help=about(*HEADLINE, "agreement"),
    width=320,
)
exhibit = exhibits.sizes(curve, run.record, split, metric, theme())

st.markdown(exhibits.sentence(exhibit, run.record, split, metric), help=about("localizer", "size", "seed"))
show(exhibit, run.id)
sweep.runs_behind(run)
