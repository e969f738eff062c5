"""Where does the skill lie? Density by layer and kind, shares as in the paper's Figures 9 and 10, one tensor near."""

import streamlit as st

from skillviz.plots.makeup import movement_by_layer, shares_by_kind, shares_by_layer
from skillviz.plots.region import cells
from skillviz.ui import alt, controls, measures, near, page, sentences
from skillviz.ui.chart import chart, theme
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
    "within",
    "Shares by layer are of",
    ("region", "kind"),
    "region",
    shown={"region": "the whole region", "kind": "each kind's own entries"}.get,
)
left, right = st.columns(2)
with left:
    chart(
        shares_by_layer(layers, within=within, theme=theme()),
        name="by_layer",
        title="By layer",
        reads="one line a module kind, and one for all kinds together. The paper's Figure 9.",
        alt=alt.layers(measures.by_layer(table)),
        table=table,
        run_id=run.id,
    )
with right:
    chart(
        shares_by_kind(layers, theme=theme(), height=360),
        name="by_kind",
        title="By module kind",
        reads="the bar is the kind's share of the region, the tick the share it would have if the region were spread "
        "evenly. The paper's Figure 10.",
        alt=alt.kinds(measures.by_kind(table)),
        table=measures.by_kind(table),
        run_id=run.id,
    )
chart(
    movement_by_layer(layers, theme=theme()),
    name="movement",
    title="How far fine-tuning moved each layer",
    reads="above, the length of each layer's movement; below, the share of its square inside the region.",
    alt=alt.movement(layers),
    table=layers,
    run_id=run.id,
    help=about("movement"),
)
