"""Where does the skill lie? Density by layer and kind, shares as in the paper's Figures 9 and 10, one tensor near."""

import streamlit as st

from skillviz.plots.region import cells
from skillviz.ui import controls, measures, near, page, sentences
from skillviz.ui.chart import show, theme
from skillviz.ui.exhibits import region as exhibits
from skillviz.ui.glossary import about

run = page.begin("region")
layers = page.table(run, "layers")
table = cells(layers)

st.markdown(
    sentences.region(measures.by_kind(table), measures.by_layer(table)), help=about("region", "enrichment", "graftable")
)
page.note_unknown_architecture(run)
near.density_card(run, layers, table)
near.tensor_card(run, layers)

within = controls.segments(
    "within", "Shares by layer are of", tuple(exhibits.WITHIN), "region", shown=exhibits.WITHIN.get
)
left, right = st.columns(2)
with left:
    show(exhibits.by_layer(layers, within, theme()), run.id)
with right:
    show(exhibits.by_kind(layers, theme()), run.id)
show(exhibits.movement(layers, theme()), run.id)
