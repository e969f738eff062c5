"""The page "Where is the skill?": a map of layers and modules, one cell with its tensors, and each part's effect."""

import streamlit as st

from skillviz.plots.region import cells
from skillviz.show import measures, sentences
from skillviz.show import region as exhibits
from skillviz.show.glossary import about
from skillviz.ui import cache, jobs_view, page
from skillviz.ui.pages.region.part_cards import parts
from skillviz.ui.pages.region.region_page import cell_card, map_card, other_regions, tensor_table, verdict
from skillviz.ui.pages.region.subskill_cards import subskills

run = page.begin("region")
jobs_view.growing_regions()
layers = page.stored_table(run, "layers")
table = cache.computed(("cells",), [run], lambda: cells(layers))

told = cache.computed(("where",), [run], lambda: sentences.region(measures.by_kind(table), measures.by_layer(table)))
lines = (told, verdict(run))
st.markdown("  \n".join(filter(None, lines)), help=about("region", "density", "movement", "graftable", "paired"))
page.note_architecture(run)
choices = {cell.key: cell for cell in exhibits.fullest_cells(table)}
left, right = st.columns([2, 1], gap="medium")
with left:
    map_card(run, layers, choices)
with right:
    cell_card(run, layers, table, choices)
tensor_table(run, layers)
parts(run)
other_regions(run)
subskills(run)  # last, because the first visit computes it for some seconds
