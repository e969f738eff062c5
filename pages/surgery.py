"""The page "Build your own region": layers, modules and stored regions, combined and grafted live."""

import streamlit as st

from skillviz.show import surgery as exhibits
from skillviz.ui import page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.surgery import surgery_page

run = page.begin("surgery")
answer = st.container()
left, right = st.columns([2, 3], gap="medium")
with left:
    region = surgery_page.built(run)
with answer:
    surgery_page.meaning(run, region)
with right:
    show(exhibits.layout(region.layers, theme()), run.id)
with left:
    page.note_architecture(run)
    surgery_page.counts(region)
place = surgery_page.graft(run, region, answer)
with place:
    surgery_page.save(run, region)
