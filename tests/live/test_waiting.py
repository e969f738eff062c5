"""Tests of the worker's queue: order, positions, and superseded requests."""

from __future__ import annotations

import threading

import pytest

from skillviz.errors import LiveError
from skillviz.live.waiting import Request, Waiting


def request(name: str, session: str = "s", topic: str | None = None) -> Request:
    return Request(name, "echo", {}, session, topic)


def drained(waiting: Waiting) -> list[str]:
    found = []
    while (one := waiting.next(0)) is not None:
        found.append(one.id)
    return found


def test_first_come_first_served() -> None:
    waiting = Waiting()
    for name in "abc":
        assert waiting.add(request(name))
    assert len(waiting) == 3 and drained(waiting) == ["a", "b", "c"] and waiting.next(0) is None


def test_a_newer_one_takes_the_place_of_its_own_topic_only() -> None:
    waiting = Waiting()
    line = [
        request("a", "s", "alpha"), request("b", "s", "size"), request("c", "t", "alpha"), request("d", "s"),
        request("e", "s"), request("f", "s", "alpha"),
    ]  # fmt: skip
    for one in line:
        waiting.add(one)
    assert line[0].done.is_set() and line[0].answer["kind"] == "Superseded" and line[0].answer["id"] == "a"
    assert not any(one.done.is_set() for one in line[1:])
    assert drained(waiting) == ["b", "c", "d", "e", "f"]


def test_one_that_is_being_answered_is_left_alone() -> None:
    waiting = Waiting()
    first, second = request("a", topic="x"), request("b", topic="x")
    waiting.add(first)
    assert waiting.next(0) is first
    waiting.add(second)
    assert not first.done.is_set()
    first.finish({"status": "ok"})
    first.finish({"status": "error"})
    assert first.answer == {"id": "a", "status": "ok"}


def test_a_closed_line_takes_nobody_and_one_with_people_does_not_close() -> None:
    waiting = Waiting()
    one = request("a")
    waiting.add(one)
    assert not waiting.close()
    waiting.withdraw(one)
    waiting.withdraw(one)
    assert waiting.close() and not waiting.add(request("b"))


def test_who_waits_is_woken() -> None:
    waiting = Waiting()
    threading.Timer(0.1, waiting.add, [request("a")]).start()
    found = waiting.next(60)
    assert found is not None and found.id == "a"


@pytest.mark.parametrize("missing", ["id", "operation", "arguments", "session"])
def test_a_request_has_all_its_fields(missing: str) -> None:
    message = {"id": "1", "operation": "ping", "arguments": {}, "session": "s"}
    assert Request.of(message).place is None and Request.of({**message, "topic": "x"}).place == ("s", "x")
    for broken in ({k: v for k, v in message.items() if k != missing}, {**message, missing: 3}):
        with pytest.raises(LiveError, match=missing):
            Request.of(broken)
