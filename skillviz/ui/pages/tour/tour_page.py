"""The guided tour: its steps, the current step, and the buttons.

Each step draws one control and its result, and returns its question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.serving.classroom import Classroom, Question
from skillviz.show.glossary import about
from skillviz.ui import address, controls, presenter
from skillviz.ui.pages.tour import classroom, questions, steps
from skillviz.ui.pages.tour.steps import OpeningRun

STEP = "step"
NAME = "skillviz_tour"
STYLE = Path(__file__).with_name("tour.css")

_mount = st.components.v2.component(
    NAME, html="<span></span>", js=Path(__file__).with_name("tour.js").read_text(encoding="utf-8")
)


@dataclass(frozen=True)
class TourStep:
    """One step: heading, terms with help, at most four sentences, and the function that draws it into two columns.

    Everything that gives the answer away is hidden until the answer is revealed."""

    title: str
    words: tuple[str, ...]
    says: Callable[[OpeningRun], str]
    draw: Callable[[OpeningRun, DeltaGenerator, DeltaGenerator, bool], Question | None]


STEPS = (
    TourStep("What fine-tuning changed", ("pretrained",), steps.text_two_models, steps.draw_sentence),
    TourStep("Between the base and the fine-tuned model", ("wise", "movement"), steps.text_path, steps.draw_wise_ft),
    TourStep("How small can the region be?", ("region", "graft"), steps.text_region, steps.draw_region),
    TourStep("Is it the only place?", ("region", "complement", "null"), steps.text_place, steps.draw_place),
    TourStep(
        "Is the model's confidence justified?", ("ece", "confidence"), steps.text_confidence, steps.draw_confidence
    ),
    TourStep("In another domain", ("ood", "wise"), steps.text_shift, steps.draw_wise_graft),
    TourStep("We hid it; who finds it?", ("localizer", "graft"), steps.text_hidden_skill, steps.draw_hidden_skill),
    TourStep("Do it yourself", ("localizer", "seed"), steps.text_yourself, steps.draw_job),
)
CONTROLS = (steps.SENTENCE, steps.WAY, steps.SIZE, steps.KEEP, steps.SURE, steps.SHIFT, steps.AROUND, steps.JOB)


def style() -> None:
    """Draws the style of the page; called before anything else of it."""
    st.html(STYLE)


def current() -> int:
    """The number of the step in the address or the session, 1 for the first; it is written to the address."""
    number = address.choice(STEP, range(1, len(STEPS) + 1), 1)
    _go(number)
    return number


def bar(number: int, room: Classroom | None) -> None:
    """Draws the progress, the number of right answers, and the buttons Back, Next, Present, Host this tour and Start
    over; for the host of a class, its menu in place of the last two."""
    words, last = f"Step {number} of {len(STEPS)}", number == len(STEPS)
    with st.container(horizontal=True, vertical_alignment="center", key="tour-bar"):
        st.button("Back", on_click=_go, args=(number - 1,), disabled=number == 1, shortcut="Left")
        st.progress(number / len(STEPS), " · ".join(filter(None, [words, "" if room else questions.score()])))
        st.button(
            "Next", on_click=_go, args=(number + 1,), disabled=last, type="secondary" if last else "primary",
            shortcut="Right",
        )  # fmt: skip
        presenter.enter()
        if room is not None:
            classroom.menu(room)
            return
        classroom.host_button()
        st.button(
            "Start over", on_click=reset, type="tertiary", icon=":material/restart_alt:",
            help="Clears answers and choices.",
        )  # fmt: skip


def draw(number: int, opening: OpeningRun, room: Classroom | None) -> None:
    """Draws the step: heading and text, control and result, question. It fits in a window 720 pixels high.

    A class that this page hosts is shown the step too, once all of it is drawn."""
    step = STEPS[number - 1]
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown(f"## {step.title}", help=about(*step.words))
        st.markdown(step.says(opening))
    is_revealed = number in room.revealed if room else str(number) in questions.answers()
    question = step.draw(opening, left, right, is_revealed)
    if room is not None:
        classroom.ask(room, number, step.title, step.says(opening), question)
    elif question is not None:
        questions.ask_question(str(number), question)
    if question is not None and number < len(STEPS):
        with st.container(key="tour-next"):
            st.button("Next step", on_click=_go, args=(number + 1,), type="primary", width="stretch")
    if number == 1 and (source := steps.text_source(opening)):
        presenter.small_print(source)
    if number == len(STEPS):
        steps.further(opening, is_revealed)


def reset() -> None:
    """Deletes the answers, the controls' values and the step; a started job keeps running."""
    questions.forget_answers()
    for name in (*CONTROLS, STEP):
        controls.forget(name)


def _go(number: int) -> None:
    address.keep(STEP, str(number), is_default=number == 1)


def follow(number: int, room: Classroom | None) -> None:
    """Scrolls up at a new step, and moves the keyboard focus from a pressed *Reveal* to the answer."""
    _mount(
        key=NAME, data={"step": number, "revealed": len(room.revealed) if room else len(questions.answers())}, height=1
    )
