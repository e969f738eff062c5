"""The page "Between the base and the fine-tuned model": WiSE-FT and WiSE-Graft, in and out of distribution."""

import streamlit as st

from skillviz.show import interpolation as exhibits
from skillviz.ui import page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.interpolation import interpolation_page

run = page.begin("interpolation")
finding = st.container()
known = interpolation_page.grid_of(run)
asked, grid = interpolation_page.traced(run, interpolation_page.controls_of(run), known)
choice = interpolation_page.placed(run, asked, grid)
points = interpolation_page.shown(run, choice, grid)
levels = interpolation_page.levels(run, choice.metric)

with finding:
    interpolation_page.finding(run, choice, grid)
left, right = st.columns(2)
with left:
    show(
        exhibits.paths(points.points, choice.datasets, choice.metric, levels, theme(), interpolation_page.HEIGHT),
        run.id,
    )
with right:
    interpolation_page.histogram(run, points, choice)
interpolation_page.numbers(run, choice, points)
if choice.outside is None:
    interpolation_page.no_other(run)
else:
    show(exhibits.trade(points.points, choice.inside, choice.outside, choice.metric, levels, theme()), run.id)
interpolation_page.paper(run, choice, grid)
