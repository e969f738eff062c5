"""The guided tour: its steps, where the reader is, and the buttons. Each step draws one control, what follows it,
and gives the question that belongs to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.show.glossary import about
from skillviz.ui import address, controls, presenter
from skillviz.ui.pages.tour import job, questions, steps
from skillviz.ui.pages.tour.demo_run import DemoRun, shown_run
from skillviz.ui.pages.tour.questions import Question

STEP = "step"
NAME = "skillviz_to_top"

_mount = st.components.v2.component(
    NAME, html="<span></span>", js=Path(__file__).with_name("to_top.js").read_text(encoding="utf-8")
)


@dataclass(frozen=True)
class Step:
    """One step: heading, words with help, at most four sentences, and what draws it into two columns."""

    title: str
    words: tuple[str, ...]
    says: Callable[[DemoRun], str]
    draw: Callable[[DemoRun, DeltaGenerator, DeltaGenerator], Question | None]


STEPS = (
    Step("Two models, one difference", ("pretrained",), steps.text_two_models, steps.draw_sentence),
    Step("The way from one to the other", ("wise", "movement"), steps.text_path, steps.draw_wise_ft),
    Step("How small a region carries the skill?", ("region", "graft"), steps.text_region, steps.draw_region),
    Step("Where the region lies", ("region", "enrichment"), steps.text_place, steps.draw_place),
    Step("Is it rightly sure?", ("ece", "confidence"), steps.text_confidence, steps.draw_confidence),
    Step("In another domain", ("ood", "wise"), steps.text_shift, steps.draw_wise_graft),
    Step("Do it yourself", ("localizer", "seed"), steps.text_yourself, job.draw),
)
CONTROLS = (
    steps.SENTENCE, steps.WAY, steps.SIZE, steps.KEEP, steps.SURE, steps.SHIFT,
    job.PAIR, job.JOB,
)  # fmt: skip


def demo_run() -> DemoRun:
    """The run that the tour shows; explains and stops where there is none."""
    return shown_run()


def current() -> int:
    """The number of the step that address or session name, 1 for the first; written to the address."""
    number = address.choice(STEP, range(1, len(STEPS) + 1), 1)
    _go(number)
    return number


def progress(number: int) -> None:
    """How far the reader has come, and how many answers were right."""
    words = f"Step {number} of {len(STEPS)}"
    st.progress(number / len(STEPS), " · ".join(filter(None, [words, questions.score()])))


def draw(number: int, demo: DemoRun) -> None:
    """The step: heading and text, control and what follows it, question."""
    step = STEPS[number - 1]
    st.markdown(f"## {step.title}", help=about(*step.words))
    left, right = st.columns([2, 3], gap="medium")
    with left:
        st.markdown(step.says(demo))
    question = step.draw(demo, left, right)
    if question is not None:
        questions.ask_question(str(number), question)
    if number == 1:
        st.caption(steps.toy_caption(demo))
    if number == len(STEPS):
        job.further(demo)


def buttons(number: int) -> None:
    """Back and next, presenter mode, and the reset."""
    with st.container(horizontal=True, key="tour-buttons"):
        st.button("Back", on_click=_go, args=(number - 1,), disabled=number == 1, shortcut="Left")
        last = number == len(STEPS)
        st.button(
            "Next", on_click=_go, args=(number + 1,), disabled=last, type="secondary" if last else "primary",
            shortcut="Right",
        )  # fmt: skip
        st.space("stretch")
        presenter.enter()
        st.button("Begin anew", on_click=reset, icon=":material/restart_alt:", help="Forgets answers and choices.")
    scroll_up_when_changed(str(number))


def reset() -> None:
    """Forgets the answers, the controls' values and the step; a job that was started goes on."""
    questions.forget_answers()
    for name in (*CONTROLS, STEP):
        controls.forget(name)


def _go(number: int) -> None:
    address.keep(STEP, str(number), is_default=number == 1)


def scroll_up_when_changed(content: str) -> None:
    """Scrolls up once each time that `content`, a name for what is shown, is another than before."""
    _mount(key=NAME, data={"content": content}, height=1)
