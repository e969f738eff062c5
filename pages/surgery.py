"""Build your own region. Layers, kinds, rows and stored regions, put together and grafted live."""

import streamlit as st

from skillviz.show import surgery as exhibits
from skillviz.show.glossary import about
from skillviz.ui import page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.surgery import view

run = page.begin("surgery")
answer = st.container()
page.note_unknown_architecture(run)
region = view.built(run)

with answer:
    view.meaning(run, region)
graft = st.container()
left, right = st.columns([3, 2])
with left:
    show(exhibits.layout(region.layers, theme()), run.id)
with right:
    view.counts(region)
with graft:  # the last to be filled: it waits for the models
    scores = view.graft(run, region, answer)
view.beside(run, region, scores)
st.caption(
    "Fine-tuned values are copied into the pre-trained model at the region and nowhere else; nothing is trained.",
    help=about("graft"),
)
