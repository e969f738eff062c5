"""The guided tour of one run, "How much of the model is the skill?": eight steps with a control and a question each."""

import streamlit as st

from skillviz.ui import page
from skillviz.ui.pages.tour import classroom, tour_page
from skillviz.ui.pages.tour.steps import opening_run

page.begin_without_run("tour")
tour_page.style()
room = classroom.hosted()
if not classroom.drew(room):
    opening = opening_run()
    step, place = tour_page.current(), st.container()
    tour_page.draw(step, opening, room)
    with place:  # drawn last, because it counts the answers
        tour_page.bar(step, room)
    tour_page.follow(step, room)
