"""The page "Build your own region": layers, modules and stored regions, combined and grafted live."""

import streamlit as st

from skillviz.show import surgery as exhibits
from skillviz.ui import page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.surgery import view

run = page.begin("surgery")
answer = st.container()
left, right = st.columns([2, 3], gap="medium")
with left:
    region = view.built(run)
with answer:
    view.meaning(run, region)
with right:
    show(exhibits.layout(region.layers, theme()), run.id)
with left:
    page.note_architecture(run)
    view.counts(region)
place = view.graft(run, region, answer)
with place:
    view.save(run, region)
