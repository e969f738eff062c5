"""How much of the model is the skill? A guided tour of the demo world: seven steps, a control and a question each."""

import streamlit as st

from skillviz.ui import page
from skillviz.ui.pages.tour import view

page.begin_without_run("tour")
demo = view.demo_run()
step, place = view.current(), st.container()

view.draw(step, demo)
with place:  # the last to be filled: it counts the answers
    view.bar(step)
view.follow(step)
