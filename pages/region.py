"""Where is the skill? Density by layer and kind, shares as in the paper's Figures 9 and 10, one tensor near."""

import streamlit as st

from skillviz.plots.region import cells
from skillviz.show import measures, sentences
from skillviz.show import region as exhibits
from skillviz.show.glossary import about
from skillviz.ui import controls, page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.region import part_cards, tensor_cards

run = page.begin("region")
layers = page.table(run, "layers")
table = cells(layers)

st.markdown(
    sentences.region(measures.by_kind(table), measures.by_layer(table)), help=about("region", "enrichment", "graftable")
)
page.note_unknown_architecture(run)
cell = tensor_cards.density_card(run, layers, table)
tensor_cards.tensor_card(run, layers, table, cell)

whole = controls.segments(
    "within", "Shares by layer are of", tuple(exhibits.SHARES_OF), "region", shown=exhibits.SHARES_OF.get
)
left, right = st.columns(2)
with left:
    show(exhibits.by_layer(layers, whole, theme()), run.id)
with right:
    show(exhibits.by_kind(layers, theme()), run.id)
show(exhibits.movement(layers, theme()), run.id)
part_cards.parts(run)
