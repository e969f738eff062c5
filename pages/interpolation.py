"""The page "Between the base and the fine-tuned model": WiSE-FT and WiSE-Graft, in and out of distribution."""

import streamlit as st

from skillviz.show import interpolation as exhibits
from skillviz.ui import page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages import interpolation

run = page.begin("interpolation")
finding = st.container()
known = interpolation.grid_of(run)
asked, grid = interpolation.traced(run, interpolation.controls_of(run), known)
choice = interpolation.placed(run, asked, grid)
points = interpolation.shown(run, choice, grid)
levels = interpolation.levels(run, choice.metric)

with finding:
    interpolation.finding(run, choice, grid)
left, right = st.columns(2)
with left:
    show(
        exhibits.paths(points.points, choice.datasets, choice.metric, levels, theme(), interpolation.HEIGHT),
        run.id,
    )
with right:
    interpolation.histogram(run, points, choice)
interpolation.code(run, choice, grid)
interpolation.numbers(run, choice, points)
if choice.outside is None:
    interpolation.no_other(run)
else:
    show(exhibits.trade(points.points, choice.inside, choice.outside, choice.metric, levels, theme()), run.id)
interpolation.planes(run, choice, points.points)
interpolation.paper(run, choice, grid)
