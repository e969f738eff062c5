"""The page "Between the base and the fine-tuned model": WiSE-FT and WiSE-Graft, in and out of distribution."""

import streamlit as st

from skillviz.show import interpolation as exhibits
from skillviz.ui import page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.interpolation import view

run = page.begin("interpolation")
finding = st.container()
known = view.grid_of(run)
asked, grid = view.traced(run, view.controls_of(run), known)
choice = view.placed(run, asked, grid)
points = view.shown(run, choice, grid)
levels = view.levels(run, choice.metric)

with finding:
    view.finding(run, choice, grid)
left, right = st.columns(2)
with left:
    show(exhibits.paths(points.points, choice.datasets, choice.metric, levels, theme(), view.HEIGHT), run.id)
with right:
    view.histogram(run, points, choice)
view.numbers(run, choice, points)
if choice.outside is None:
    view.no_other(run)
else:
    show(exhibits.trade(points.points, choice.inside, choice.outside, choice.metric, levels, theme()), run.id)
view.planes(run, choice, points.points)
view.paper(run, choice, grid)
