"""Requests in the order they came; a newer one of the same session and topic takes the place of one that waits."""

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
        """The request of a message; raises LiveError where a field is missing or of another type."""
        wanted = {"id": str, "operation": str, "arguments": dict, "session": str}
        for name, kind in wanted.items():
            if not isinstance(message.get(name), kind):
                raise LiveError(f"the request has no '{name}'; client and worker may have different versions.")
        topic = message.get("topic")
        return cls(topic=None if topic is None else str(topic), **{name: message[name] for name in wanted})

    def finish(self, answer: Message) -> None:
        """Sets the answer, once: whoever comes second is not heard."""
        if not self.done.is_set():
            self.answer = {"id": self.id, **answer}
            self.done.set()

    @property
    def place(self) -> tuple[str, str] | None:
        """What one waiting request at most may have: its session and topic."""
        return None if self.topic is None else (self.session, self.topic)


class Waiting:
    """The line in front of the one who answers; safe to use from many threads."""

    def __init__(self) -> None:
        self._line: deque[Request] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        with self._changed:
            return len(self._line)

    def add(self, request: Request) -> bool:
        """Puts the request at the end, and says whether it could: a closed line takes nobody.

        One that waits with the same session and topic is answered Superseded at once.
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
        """The first in the line, waited for at most so long; None where nobody came."""
        with self._changed:
            if not self._line:
                self._changed.wait(seconds)
            return self._line.popleft() if self._line else None

    def withdraw(self, request: Request) -> None:
        """Takes a request out of the line, because nobody waits for its answer any more."""
        with self._changed:
            if request in self._line:
                self._line.remove(request)

    def close(self) -> bool:
        """Closes the line if it is empty, and says whether it did."""
        with self._changed:
            self._closed = self._closed or not self._line
            return self._closed
