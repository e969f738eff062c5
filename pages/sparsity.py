"""The page "How small can the region be?": a metric by region size, one line per localizer, for all runs of a pair."""

import streamlit as st

from skillviz.analysis.necessity import RECOVERED
from skillviz.core.metrics import metric_heading, metric_names
from skillviz.show import known_truth, measures
from skillviz.show import sparsity as exhibits
from skillviz.show.briefs import headline_split
from skillviz.show.glossary import about
from skillviz.ui import controls, page, run_list
from skillviz.ui.chart import show, theme
from skillviz.ui.pages import sparsity

run = page.begin("sparsity")
briefs, split = run_list.pair_briefs(run), headline_split(run.record)
this = next(brief for brief in briefs if brief.id == run.id)
curve = run_list.pair_curve(briefs, split)
if curve.empty:
    st.info(
        f"Run {run.id} holds no curve: it was made without evaluating region sizes. Make one with "
        "`python -m skillviz localize ... --size 0.1% --size 0.01% --size 1%`."
    )
    st.stop()
line = (this.localizer, measures.nondefault_settings(briefs)[briefs.index(this)])
st.markdown(
    f"{sparsity.finding(briefs, curve, line, split)} {sparsity.verdict(briefs, this, split)}".strip(),
    help=about("recovered", "localizer", "size", "seed", "paired"),
)
sparsity.beyond_null(run.record, split)
places = st.columns([4, 3, 1], vertical_alignment="bottom")
with places[2].popover("Metrics", width="stretch"):
    metric = controls.select(
        "metric", "Metric", measures.offered(curve, run.record), run.record.metric, shown=metric_heading,
        help=about(*metric_names(run.record.metric), "debiased", "agreement"),
    )  # fmt: skip
with places[0]:
    axes = {"metric": metric_heading(metric), "gain": "Share of the gain"}
    axis = controls.segments("axis", "Show", tuple(axes), "metric", shown=axes.get, shows_label=False)
with places[1]:
    lines = exhibits.line_count(curve)
    every = lines > exhibits.MOST_LINES and controls.switch("every", f"All {lines} curves", False)
shown = RECOVERED if axis == "gain" else metric
show(exhibits.sizes(curve, run.record, split, shown, line, theme(), every), run.id)
sparsity.code(run, curve, shown, every)
st.caption(known_truth.PAST)
sparsity.runs(run, briefs)
alike = [brief for brief in briefs if (brief.localizer, brief.settings) == (this.localizer, this.settings)]
complement = run_list.pair_complement(alike, split)
if complement.empty:
    st.caption("What removing the region costs is not stored for these runs.")
elif exhibits.has_gain(curve):  # otherwise the first sentence of the page says that there is no gain
    at_own_gain = curve[(curve["localizer"] == line[0]) & (curve["settings"] == line[1])]
    necessity = exhibits.necessity(at_own_gain, complement, line, theme())
    st.markdown(necessity.finding, help=about("complement", "recovered"))
    show(necessity, run.id)
sparsity.checkpoints(run)
