"""A hosted tour: the teacher's page opens a class, shows it each step and reveals; students answer on their own pages.

The classes are in the memory of the server (`skillviz.serving.classroom`). Pages look at them once a second.
"""

from __future__ import annotations

from contextlib import suppress

import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.errors import SkillvizError
from skillviz.serving import visitor
from skillviz.serving.classroom import AWAY, CLASSROOMS, Classroom, Poll, Question, browser
from skillviz.serving.downloads import Tab
from skillviz.serving.sign_in import sentence_of
from skillviz.show import classroom as exhibits
from skillviz.show import text
from skillviz.ui import address, exports, presenter
from skillviz.ui.chart import alone, theme
from skillviz.ui.pages.tour import questions

HOST, JOIN = "host", "join"  # in the address: the code of the class that this page hosts, or follows
EVERY = 1.0  # seconds between two looks of a page at its class
LOBBY = "tour.lobby"  # session key: whether the teacher's page shows the code in place of a step
CHOICE = "tour.answer."
NO_SERVER = (
    "This address works on this machine alone. For students at other machines, open the dashboard at an address that "
    "they reach: `docs/deploy.md`, *A class without sign-in*."
)


def hosted() -> Classroom | None:
    """The class that this browser hosts; None without one. The link of somebody else's class becomes a link to join."""
    code = address.current(HOST)
    if code is None:
        return None
    with suppress(SkillvizError):
        room = CLASSROOMS.find(code)
        if room.is_host(browser()):
            room.tab = Tab()
            address.keep(HOST, room.code)
            return room
    address.forget(HOST)
    address.keep(JOIN, code)
    return None


def drew(room: Classroom | None) -> bool:
    """Draws the teacher's page with code and link, or the page of a student; False if the tour itself is to be drawn.

    The script then ends without `st.stop`, after which Streamlit would keep the values of the tour's controls, but not
    the browser."""
    if room is not None:
        if is_lobby := st.session_state.get(LOBBY, room.now() is None):
            _lobby(room)
        return bool(is_lobby)
    if code := address.current(JOIN):
        _attend(code)
    return bool(code)


def host_button() -> None:
    """Draws the button that opens a class."""
    if st.button(
        "Host this tour", type="tertiary", icon=":material/groups:", key="tour.host",
        help="Students join by a link and answer each question before you reveal it. No names, nothing is stored.",
    ):  # fmt: skip
        try:
            room = CLASSROOMS.host(browser(), Tab())
        except SkillvizError as error:
            st.warning(text.plain(sentence_of(error)), icon=":material/error:")
            return
        address.forget(JOIN)
        address.keep(HOST, room.code)
        st.session_state[LOBBY] = True
        st.rerun()


def menu(room: Classroom) -> None:
    """Draws the menu of a hosted class: the link again, the answers as a file, the end."""
    with st.popover(f"Class {room.code}", icon=":material/groups:", type="tertiary"):
        st.button("Show the link", icon=":material/link:", on_click=_open_lobby, args=(True,), width="stretch")
        st.download_button(
            "Answers (CSV)", lambda: exports.csv(_table(room)), f"class-{room.code}.csv", "text/csv",
            on_click="ignore", icon=":material/download:", width="stretch",
        )  # fmt: skip
        st.button("End the class", icon=":material/stop_circle:", on_click=_end, args=(room.code,), width="stretch")
        st.caption("The end deletes all answers. Download them first.")


def ask(room: Classroom, number: int, title: str, words: str, question: Question | None) -> None:
    """Shows a step to the class and draws the teacher's card: the question, how many have answered, *Reveal*.

    After *Reveal*: the share of each answer, and the reason."""
    room.show(number, title, words, question)
    poll = room.now()
    if poll is None or poll.question is None:
        return
    with st.container(border=True, key="tour-question"):
        st.markdown(f"**{poll.question.asks}**", help=questions.CLAIMED)
        if number in room.revealed:
            bars, verdict = st.columns(questions.BESIDE_ANSWER, vertical_alignment="center")
            rows = exhibits.shares(poll.question.choices, room.counts(poll), poll.question.answer)
            with bars:
                alone(exhibits.exhibit(rows, theme()))
            with verdict:
                questions.show_verdict(poll.question, questions.NOT_CHOSEN)
            return
        choices, reveal = st.columns(questions.BESIDE_BUTTON, vertical_alignment="center")
        with choices:
            st.markdown("\N{EM SPACE}".join(f"○ {choice}" for choice in poll.question.choices.values()))
            st.fragment(_answered, run_every=EVERY)(room.code)
        reveal.button(
            "Reveal", on_click=room.revealed.add, args=(number,), key=f"tour.reveal.class.{number}",
            icon=":material/visibility:", width="stretch",
        )  # fmt: skip


def _answered(code: str) -> None:
    """Draws how many have answered the current question."""
    room = _kept(code)
    if (poll := room.now()) is not None:
        st.markdown(f"**{sum(room.counts(poll).values())} of {formats.counted(len(room.seats), 'student')} answered**")


def _lobby(room: Classroom) -> None:
    """Draws code and link in letters for a projector, the number of students, and the button that starts."""
    with st.container(border=True, key="tour-lobby"):
        st.markdown("## Join this class")
        st.code(f"{(st.context.url or '/tour').partition('?')[0]}?{JOIN}={room.code}", language=None)
        with st.container(horizontal=True, vertical_alignment="bottom", gap="large"):
            st.metric("Code", room.code, width="content")
            with st.container(width="content"):
                st.fragment(_joined, run_every=EVERY)(room.code)
            label = "Start" if room.now() is None else "Back to the tour"
            st.button(label, type="primary", on_click=_open_lobby, args=(False,), icon=":material/play_arrow:")
            presenter.enter()
            st.button("End the class", type="tertiary", on_click=_end, args=(room.code,))
        st.caption(
            "No names, and nothing is stored: all answers are gone when you end the class, or "
            f"{AWAY / 60:.0f} minutes after you close this tab."
        )
    if visitor.is_local():
        st.info(NO_SERVER, icon=":material/lan:")


def _joined(code: str) -> None:
    st.metric("Joined", formats.count(len(_kept(code).seats)), width="content")


def _kept(code: str) -> Classroom:
    """The class of a teacher's page that is open, which keeps it from ending."""
    room = _still(code)
    room.tab = Tab()
    return room


def _still(code: str) -> Classroom:
    """The class of a page that is open; draws the page again if the class has ended meanwhile."""
    try:
        return CLASSROOMS.find(code)
    except SkillvizError:
        st.rerun()


def _open_lobby(is_open: bool) -> None:
    st.session_state[LOBBY] = is_open


def _end(code: str) -> None:
    CLASSROOMS.end(code)
    st.session_state.pop(LOBBY, None)
    address.forget(HOST)


def _table(room: Classroom) -> pd.DataFrame:
    asked = [(poll, poll.question) for _, poll in sorted(room.polls.items()) if poll.question is not None]
    return exhibits.table([(poll.step, one.asks, one.choices, room.counts(poll)) for poll, one in asked])


def _attend(code: str) -> None:
    """Draws the page of a student, which follows the teacher's; or why it cannot."""
    address.keep(JOIN, code)
    try:
        room = CLASSROOMS.find(code)
        room.join(browser())
    except SkillvizError as error:
        st.warning(formats.capital(text.plain(sentence_of(error))), icon=":material/error:")
        st.button("Open the tour", on_click=address.forget, args=(JOIN,), icon=":material/school:")
    else:
        st.fragment(_follow, run_every=EVERY)(room.code)
        st.button("Leave the class", on_click=address.forget, args=(JOIN,), type="tertiary", icon=":material/logout:")


def _follow(code: str) -> None:
    """Draws the step of the class: its text, the question, and after *Reveal* the answer. It draws no figure, because
    forty of these pages look at their class once a second."""
    room = _still(code)
    seat, poll = room.join(browser()), room.now()
    if poll is None:
        st.info("You have joined. The first question appears here when your teacher starts.", icon=":material/groups:")
        return
    st.markdown(f"## {poll.title}")
    st.markdown(poll.text)
    if poll.question is None:
        st.info("No question here. Look at the screen.", icon=":material/present_to_all:")
        return
    with st.container(border=True, key="tour-question"):
        _answer_box(room, poll, poll.question, seat)


def _answer_box(room: Classroom, poll: Poll, question: Question, seat: str) -> None:
    key, mine = f"{CHOICE}{room.code}.{poll.number}", room.answer_of(seat, poll)
    is_revealed = poll.step in room.revealed
    if st.session_state.get(key) != mine:  # from another tab, before a reload, or too late
        st.session_state[key] = mine
    st.radio(
        question.asks, list(question.choices), index=None, key=key, format_func=question.choices.get,
        help=questions.CLAIMED, disabled=is_revealed, on_change=_answer, args=(room.code, seat, poll.number, key),
    )  # fmt: skip
    if is_revealed:
        questions.show_verdict(question, mine or questions.NOT_CHOSEN)
        rows = exhibits.shares(question.choices, room.counts(poll), question.answer)
        st.caption(f"Your class: {exhibits.said(rows)}.")
    elif mine:
        st.caption(":material/check: Your answer counts. You can change it until your teacher reveals the answer.")
    else:
        st.caption("Choose one.")


def _answer(code: str, seat: str, number: int, key: str) -> None:
    with suppress(SkillvizError):  # the page says that the class has ended
        CLASSROOMS.find(code).answer(seat, number, st.session_state[key])
