"""Classes that follow a hosted tour: in the memory of this server alone, without names, and gone with their teacher.

A class has a code. Its teacher's page shows a step to it and reveals the answer; each browser of a student has one
answer to each question. Nothing is written to disk.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import streamlit as st

from skillviz.errors import NoClass
from skillviz.serving import sign_in
from skillviz.serving.downloads import Tab
from skillviz.serving.guard import BROWSER

MOST_CLASSES, MOST_STUDENTS = 40, 300  # of a server, and of a class: a full one takes under 1 MB
LONGEST = 6 * 3600.0  # seconds that a class lasts at most
AWAY = 15 * 60.0  # seconds after which a class ends if its teacher has no tab open: time for a reload, or a break
LETTERS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"  # of a code; 0 and O, 1 and I look alike on a projector
CODE = 6  # letters of a code: a guess hits one of 40 classes once in 27 million


@dataclass(frozen=True)
class Question:
    """A question of the tour.

    `choices` maps names to the displayed text; `answer` is the name of the right choice, None while it is unknown;
    `why` gives the numbers, in Markdown."""

    asks: str
    choices: Mapping[str, str]
    answer: str | None
    why: str


@dataclass(frozen=True)
class Poll:
    """A step as a class sees it; `question` is None for a step that asks nothing.

    `number` changes if another question replaces this one, so that a late answer is not taken for an answer to it."""

    step: int
    title: str
    text: str
    question: Question | None
    number: int


class Classroom:
    """One class: its polls by step, and the answers to them by seat, a hash of a student's browser.

    `revealed` are the steps whose answers count no more. Threads of all its visitors use it at the same time."""

    def __init__(self, code: str, host: str, tab: Any, now: float) -> None:
        self.code, self.tab, self.made, self.seen = code, tab, now, now
        self._lock, self._salt = threading.Lock(), secrets.token_bytes(16)
        self._host = self._seat(host)
        self.polls: dict[int, Poll] = {}
        self.revealed, self.seats = set[int](), set[str]()
        self._answers: dict[int, dict[str, str]] = {}  # by the poll's number
        self._step = self._numbers = 0

    def _seat(self, browser: str) -> str:
        return blake2b(browser.encode(), key=self._salt, digest_size=16).hexdigest()

    def is_host(self, browser: str) -> bool:
        """True for the browser of the teacher."""
        return self._seat(browser) == self._host

    def join(self, browser: str) -> str:
        """Return the seat of a student's browser, the same at each visit; raises NoClass if all are taken."""
        seat = self._seat(browser)
        with self._lock:
            if seat not in self.seats and len(self.seats) >= MOST_STUDENTS:
                raise NoClass(
                    f"class {self.code} is full: {MOST_STUDENTS} students have joined, the most that a class may have. "
                    "Look at the screen together with somebody who has."
                )
            self.seats.add(seat)
        return seat

    def show(self, step: int, title: str, text: str, question: Question | None) -> None:
        """Show a step to the class. Another question than before drops the answers to it, unless it is revealed."""
        with self._lock:
            before, self._step = self.polls.get(step), step
            if before is not None and _is_same(before.question, question):
                number = before.number
            elif before is not None and step in self.revealed:
                return
            else:
                number = self._numbers = self._numbers + 1
                self._answers.pop(before.number if before else 0, None)
            self.polls[step] = Poll(step, title, text, question, number)

    def answer(self, seat: str, number: int, choice: str | None) -> bool:
        """Set or change the one answer of a seat to the current poll; return whether it counts.

        It does not after Reveal, for another poll, or for a choice or a seat that does not exist."""
        with self._lock:
            poll = self.polls.get(self._step)
            counts = (
                poll is not None and poll.number == number and poll.step not in self.revealed
                and poll.question is not None and choice in poll.question.choices and seat in self.seats
            )  # fmt: skip
            if counts:
                self._answers.setdefault(number, {})[seat] = str(choice)
            return counts

    def now(self) -> Poll | None:
        """Return the step that the class sees; None before the first."""
        return self.polls.get(self._step)

    def answer_of(self, seat: str, poll: Poll) -> str | None:
        """Return the answer of a seat; None without one."""
        return self._answers.get(poll.number, {}).get(seat)

    def counts(self, poll: Poll) -> dict[str, int]:
        """Return the number of answers by the name of the choice, for every choice."""
        with self._lock:
            given = list(self._answers.get(poll.number, {}).values())
        return {name: given.count(name) for name in (poll.question.choices if poll.question else ())}


def _is_same(one: Question | None, other: Question | None) -> bool:
    """True if the answers to one question are answers to the other: its right answer may become known meanwhile."""
    if one is None or other is None:
        return one is other
    return (one.asks, one.choices) == (other.asks, other.choices) and one.answer in (None, other.answer)


class Classrooms:
    """The classes of a server, by code. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._rooms: dict[str, Classroom] = {}

    def host(self, browser: str, tab: Any) -> Classroom:
        """Open a class for a teacher's browser, and end its last one; raises NoClass if the server has the most."""
        with self._lock:
            self._drop_ended()
            for code in [code for code, room in self._rooms.items() if room.is_host(browser)]:
                del self._rooms[code]
            if len(self._rooms) >= MOST_CLASSES:
                raise NoClass(
                    f"this server hosts {MOST_CLASSES} classes already, the most that it may. Try again when one ends."
                )
            if not self._rooms:
                self._sweep_later()
            code = "".join(secrets.choice(LETTERS) for _ in range(CODE))
            return self._rooms.setdefault(code, Classroom(code, browser, tab, self._clock()))

    def find(self, code: str) -> Classroom:
        """Return the class of a code, in any case; raises NoClass if there is none, or if it has ended."""
        with self._lock:
            self._drop_ended()
            room = self._rooms.get(code.strip().upper())
        if room is None:
            raise NoClass(
                f"there is no class {code.strip().upper()[: 2 * CODE]}. It has ended, or the code is mistyped: a code "
                f"has {CODE} letters and digits. Ask your teacher for the link."
            )
        return room

    def end(self, code: str) -> None:
        """End a class: its answers are gone."""
        with self._lock:
            self._rooms.pop(code, None)

    def _drop_ended(self) -> None:
        now = self._clock()
        for code, room in list(self._rooms.items()):
            if room.tab.is_open:
                room.seen = now
            if now - room.made > LONGEST or now - room.seen > AWAY:
                del self._rooms[code]

    def _sweep_later(self) -> None:
        timer = threading.Timer(AWAY, self._sweep)  # a class that nobody asks for ends too
        timer.daemon = True
        timer.start()

    def _sweep(self) -> None:
        with self._lock:
            self._drop_ended()
            if self._rooms:
                self._sweep_later()


CLASSROOMS = Classrooms()


def browser() -> str:
    """An id of the visitor that a reload does not change: the user who signed in, else the browser by its cookie.

    A browser that refuses cookies gets a new one with each visit. Raises NotSignedIn."""
    return sign_in.owner() or st.context.cookies.get(BROWSER) or Tab().id
