"""The queue of requests, in order of arrival; a newer one replaces a waiting one of the same session and topic."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skillviz.errors import LiveError, Superseded
from skillviz.live.protocol import Message, error_message


@dataclass(eq=False)
class Request:
    """One request and, once `done` is set, its answer."""

    id: str
    operation: str
    arguments: Mapping[str, Any]
    session: str = ""
    topic: str | None = None
    answer: Message = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, message: Message) -> Request:
        """Return the request of a message; raises LiveError if a field is missing or has another type."""
        wanted = {"id": str, "operation": str, "arguments": dict, "session": str}
        for name, kind in wanted.items():
            if not isinstance(message.get(name), kind):
                raise LiveError(f"the request has no '{name}'; client and worker may have different versions.")
        topic = message.get("topic")
        return cls(topic=None if topic is None else str(topic), **{name: message[name] for name in wanted})

    def finish(self, answer: Message) -> None:
        """Set the answer once; later answers are ignored."""
        if not self.done.is_set():
            self.answer = {"id": self.id, **answer}
            self.done.set()

    @property
    def place(self) -> tuple[str, str] | None:
        """The session and topic, of which at most one request may wait; None without a topic."""
        return None if self.topic is None else (self.session, self.topic)


class Waiting:
    """The queue of requests to the worker; safe to use from many threads."""

    def __init__(self) -> None:
        self._line: deque[Request] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        with self._changed:
            return len(self._line)

    def add(self, request: Request) -> bool:
        """Add the request at the end; return False if the queue is closed.

        A waiting request with the same session and topic is answered with Superseded at once.
        """
        with self._changed:
            if self._closed:
                return False
            for older in [r for r in self._line if request.place is not None and r.place == request.place]:
                self._line.remove(older)
                older.finish(error_message(Superseded("a newer request replaced this one."), ""))
            self._line.append(request)
            self._changed.notify()
            return True

    def next(self, seconds: float) -> Request | None:
        """Return the first request, waiting for at most `seconds`; None if there is none."""
        with self._changed:
            if not self._line:
                self._changed.wait(seconds)
            return self._line.popleft() if self._line else None

    def withdraw(self, request: Request) -> None:
        """Remove a request from the queue, because its client is gone."""
        with self._changed:
            if request in self._line:
                self._line.remove(request)

    def close(self) -> bool:
        """Close the queue if it is empty; return whether it is closed."""
        with self._changed:
            self._closed = self._closed or not self._line
            return self._closed
