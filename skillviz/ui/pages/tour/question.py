"""A question of the tour on the page: chosen, checked, explained; what was answered is kept for the session."""

from __future__ import annotations

import streamlit as st

from skillviz.core import formats
from skillviz.ui.pages.tour.questions import Question

ANSWERS = "tour.answers"  # in the session: what was answered to each question, and whether it was right
WIDGET = "tour.choice."

Given = dict[str, tuple[str, bool | None]]


def ask(name: str, question: Question) -> None:
    """The question's card: choices, a button that checks, and after it what is right and why."""
    given, key, names = answers(), f"{WIDGET}{name}", list(question.choices)
    if st.session_state.get(key) not in names:
        st.session_state[key] = given[name][0] if name in given and given[name][0] in names else None
    with st.container(border=True, key="tour-question"):
        label = f"**{question.asks}**"
        chosen = st.radio(label, names, key=key, format_func=lambda c: question.choices[c], horizontal=True)
        if st.button("Check", disabled=chosen is None, key=f"tour.check.{name}", icon=":material/task_alt:"):
            given[name] = (str(chosen), None)
        if name in given and chosen == given[name][0]:
            given[name] = (given[name][0], _is_right(question, given[name][0]))
            _tell(question, given[name][0])


def answers() -> Given:
    """What was answered so far, by the question's name."""
    found: Given = st.session_state.setdefault(ANSWERS, {})
    return found


def score() -> str:
    """`2 of 3 answers right`; empty before the first."""
    checked = [right for _, right in answers().values() if right is not None]
    return f"{sum(checked)} of {formats.counted(len(checked), 'answer')} right" if checked else ""


def forget() -> None:
    """Takes back all answers."""
    for key in [key for key in st.session_state if str(key).startswith(WIDGET)]:
        del st.session_state[key]
    st.session_state.pop(ANSWERS, None)


def _is_right(question: Question, given: str) -> bool | None:
    return None if question.answer is None else given == question.answer


def _tell(question: Question, given: str) -> None:
    """Whether it is right, in words and by a sign, and the numbers that say so."""
    if question.answer is None:
        st.info(f"Your guess is kept. {question.why}", icon=":material/hourglass_empty:")
    elif given == question.answer:
        st.success(f"**Right.** {question.why}", icon=":material/check_circle:")
    else:
        right = question.choices[question.answer]
        st.warning(f"**Not so:** {right}. {question.why}", icon=":material/cancel:")
