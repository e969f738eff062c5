"""How much of a model is a skill? A guided lesson on the demo world: seven steps, a control and a question each."""

import streamlit as st

from skillviz.show.glossary import about
from skillviz.ui import page
from skillviz.ui.pages.tour import view as tour

page.begin_without_run("tour")
lesson = tour.lesson()
step, place = tour.current(), st.container()

tour.draw(step, lesson)
with place:  # the last to be filled: it counts the answers
    tour.progress(step)
tour.buttons(step)
st.caption("A difference is claimed only where its 95 % interval leaves out zero.", help=about("paired"))
