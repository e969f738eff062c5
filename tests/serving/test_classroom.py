"""Tests of a class of the hosted tour: who may answer what and when, the limits, and the end of a class."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from skillviz.errors import NoClass
from skillviz.serving import classroom
from skillviz.serving.classroom import AWAY, CODE, LETTERS, LONGEST, Classroom, Classrooms, Question
from tests.refused import refuses

CHOICES = {"a": "the first", "b": "the second"}
TEACHER = "teacher"


def question(asks: str = "Which?", answer: str | None = "a") -> Question:
    return Question(asks, CHOICES, answer, "because")


def room(*shown: Any) -> Classroom:
    """Return a class that has been shown these questions as steps 1, 2, ...; the last is the current one."""
    made = Classrooms().host(TEACHER, SimpleNamespace(is_open=True))
    for step, one in enumerate(shown, start=1):
        made.show(step, f"Step {step}", "Text.", one)
    return made


def votes(made: Classroom) -> list[int]:
    poll = made.now()
    return list(made.counts(poll).values()) if poll else []


REVEAL, BACK = "reveal", "back"
OTHER, KNOWN, GONE = question("How many?"), question(answer="b"), None


@pytest.mark.parametrize(
    ("first", "acts", "counts"),
    [
        (question(), ["x:a", "y:b", "z:a"], [2, 1]),
        (question(), ["x:a", "x:b", "x:b"], [0, 1]),  # a changed answer counts once
        (question(), ["x:a", REVEAL, "x:b", "y:b"], [1, 0]),  # too late
        (question(), ["x:c", "x:", "nobody:a"], [0, 0]),  # no such choice, and a seat that has not joined
        (question(), ["x:a", OTHER], [0, 0]),  # another question in the same step
        (question(), ["x:a", OTHER, "old:b"], [0, 0]),  # an answer that was on its way to the old one
        (question(answer=None), ["x:a", KNOWN, "y:b"], [1, 1]),  # its right answer is known only now
        (question(), ["x:a", KNOWN], [0, 0]),  # its right answer is another now
        (question(), ["x:a", REVEAL, KNOWN, "y:b"], [1, 0]),  # what is revealed stays as it was
        (question(), ["x:a", GONE, "y:a"], []),
        (GONE, ["x:a"], []),
    ],
)  # fmt: skip
def test_each_browser_has_one_answer_until_it_is_revealed(first: Any, acts: list[Any], counts: list[int]) -> None:
    made = room(first)
    number = made.now().number
    for act in acts:
        if act == REVEAL:
            made.revealed.add(1)
        elif isinstance(act, str):
            who, _, choice = act.partition(":")
            seat = who if who == "nobody" else made.join(who)
            made.answer(seat, number if who == "old" else made.now().number, choice)
        else:
            made.show(1, "Step 1", "Text.", act)
    assert votes(made) == counts


def test_a_late_student_sees_the_current_step_and_the_answers_before_stay() -> None:
    made = room(question())
    made.answer(made.join("x"), made.now().number, "a")
    made.show(2, "Step 2", "Text.", OTHER)
    late = made.join("late")
    assert (made.now().step, len(made.seats), made.join("late")) == (2, 2, late)
    assert not made.answer(late, made.polls[1].number, "a") and made.answer(late, made.now().number, "b")
    assert [list(made.counts(poll).values()) for poll in made.polls.values()] == [[1, 0], [0, 1]]
    made.show(1, "Step 1", "Text.", question())
    assert votes(made) == [1, 0] and made.answer_of(late, made.now()) is None, "the teacher went back"


def test_nothing_in_memory_names_a_browser() -> None:
    made = room(question())
    made.answer(made.join("browser-of-ada"), made.now().number, "a")
    assert "browser-of-ada" not in repr(vars(made)) and made.is_host(TEACHER) and not made.is_host("browser-of-ada")
    assert made.join("x") != room().join("x"), "a browser has another seat in another class"


def test_classes_and_students_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classroom, "MOST_STUDENTS", 2)
    monkeypatch.setattr(classroom, "MOST_CLASSES", 2)
    rooms, tab = Classrooms(), SimpleNamespace(is_open=True)
    first = rooms.host("one", tab)
    assert [first.join(name) == first.join(name) for name in "ab"] == [True, True]
    refuses(NoClass, f"{first.code} is full: 2", first.join, "c")
    second = rooms.host("two", tab)
    refuses(NoClass, "hosts 2", rooms.host, "three", tab)
    again = rooms.host("one", tab)
    refuses(NoClass, first.code, rooms.find, first.code)
    assert rooms.find(f" {again.code.lower()} ") is again and rooms.find(second.code) is second
    assert len(again.code) == CODE and {*again.code} <= {*LETTERS}
    refuses(NoClass, "ZZZZZZZZZZZZ. It", rooms.find, "z" * 9000)


@pytest.mark.parametrize(
    ("is_open", "seconds", "remains"),
    [
        (True, LONGEST, True), (True, LONGEST + 1, False), (False, AWAY, True), (False, AWAY + 1, False),
        (True, AWAY + 1, True),
    ],
)  # fmt: skip
def test_a_class_ends_with_its_teachers_tab_or_after_hours(is_open: bool, seconds: float, remains: bool) -> None:
    now = [0.0]
    rooms = Classrooms(lambda: now[0])
    made = rooms.host(TEACHER, SimpleNamespace(is_open=is_open))
    now[0] = seconds
    rooms._sweep()  # nobody asks for it
    assert (made.code in rooms._rooms) == remains
    rooms.end(made.code)
    refuses(NoClass, made.code, rooms.find, made.code)


def test_forty_threads_that_answer_at_once_count_once_each() -> None:
    made = room(question())
    number = made.now().number
    threads = [
        threading.Thread(target=lambda n=n: [made.answer(made.join(str(n)), number, c) for c in "abab" * 25])
        for n in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (votes(made), len(made.seats)) == ([0, 40], 40)
