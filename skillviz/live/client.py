"""Requests to a worker, a child process of this one that starts with the first request; and the worker's loop.

Does not import torch. Client and worker send each other Python objects over a pipe that no other process has.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from skillviz.errors import LiveError, SkillvizError, Superseded, is_out_of_memory
from skillviz.runs.process import environment
from skillviz.serving import read_only
from skillviz.serving.settings import settings

SECONDS = 120.0  # a first request may load a model
IDLE_SECONDS = 600.0
LOOK_SECONDS = 0.2  # interval of the checks that a waiting request is still wanted

_processes: list[subprocess.Popen[bytes]] = []
"""The workers that this process started and that may still run."""
_starting = threading.Lock()  # so that workers are counted one start at a time


class WorkerBug(RuntimeError):
    """An error in skillviz that occurred in the worker; its message has the worker's traceback."""


@dataclass(eq=False)
class _Request:
    """A request that waits or is being answered, until `end` and while `is_wanted`."""

    topic: str | None
    end: float
    is_wanted: Callable[[], bool]

    def check(self) -> None:
        """Raise Superseded if the request is no longer wanted, LiveError if it has waited too long."""
        if not self.is_wanted():
            raise Superseded("the page that sent this request was closed.")
        if time.monotonic() > self.end:
            raise LiveError("the worker took too long; ask for fewer examples, or wait until it is free.")


class Client:
    """The worker of one store; many threads can use it, and their requests are answered in order of arrival."""

    def __init__(
        self,
        store: Path | str,
        idle_seconds: float = IDLE_SECONDS,
        command: tuple[str, ...] = (sys.executable, "-m", "skillviz", "worker"),
    ) -> None:
        self.store, self.idle_seconds, self.command = Path(store).resolve(), idle_seconds, command
        self.process: subprocess.Popen[bytes] | None = None
        self._queue: list[_Request] = []  # the first one has the pipe
        self._changed = threading.Condition()
        self._owes_message = False

    def ask(
        self,
        operation: str,
        *,
        topic: str | None = None,
        timeout: float = SECONDS,
        is_wanted: Callable[[], bool] = lambda: True,
        **arguments: Any,
    ) -> dict[str, Any]:
        """Return the operation's answer (see `live.operations`).

        A newer request with the same `topic` takes the place of one that still waits, which raises Superseded; so does
        a request that `is_wanted` no longer, and the worker stops computing its answer. Raises the operation's own
        errors, LiveError if there is no answer within `timeout` seconds or the worker ends while answering, and
        WorkerBug for an error in skillviz.
        """
        read_only.refuse()  # the worker stores its answers
        request = _Request(topic, time.monotonic() + timeout, is_wanted)
        with self._turn(request):
            answer = self._answer(request, (operation, arguments))
        if isinstance(answer, Exception):
            raise answer
        return answer

    @contextmanager
    def _turn(self, request: _Request) -> Iterator[None]:
        """Wait for the requests that arrived earlier."""
        try:
            with self._changed:
                others = [r for r in self._queue[1:] if request.topic is None or r.topic != request.topic]
                self._queue[1:] = [*others, request]
                self._changed.notify_all()
                while self._queue[0] is not request:
                    request.check()
                    self._changed.wait(LOOK_SECONDS)
                    if request not in self._queue:
                        raise Superseded("a newer request replaced this one.")
            yield
        finally:
            with self._changed:
                self._queue[:] = [r for r in self._queue if r is not request]
                self._changed.notify_all()

    def _answer(self, request: _Request, message: tuple[str, dict[str, Any]]) -> Any:
        """Return the answer or its error. A worker that is gone, or ends before it takes the request, is started."""
        while True:
            is_sent = False
            try:
                if self.process is None or self.process.poll() is not None:
                    self._start(request)
                elif self._owes_message:  # that it is ready, or the answer to a request that was given up
                    self._receive(request)
                self._connection.send(message)
                self._owes_message = is_sent = True
                return self._receive(request)
            except Superseded:
                if is_sent:
                    with suppress(OSError):
                        self._connection.send(None)
                raise
            except (EOFError, OSError):
                if self.process is not None and self.process.wait() and is_sent:  # an idle worker ends with 0
                    raise LiveError(
                        "the worker stopped while it was answering (killed, or out of memory); the next request starts "
                        "a new one."
                    ) from None
            request.check()

    def _receive(self, request: _Request) -> Any:
        while not self._connection.poll(LOOK_SECONDS):
            request.check()
        message = self._connection.recv()
        self._owes_message = False
        return message

    def _start(self, request: _Request) -> None:
        """Start the worker and wait until it is ready. Raises BadInput or LiveError."""
        try:
            with tempfile.TemporaryFile() as log:
                self.process = self._launched(log)
                try:
                    self._receive(request)
                except (EOFError, ConnectionError):
                    self.process.wait()
                    log.seek(0)
                    printed = log.read().decode("utf-8", errors="replace").strip()
                    reason = printed.splitlines()[-1] if printed else "it ended without a word."
                    raise LiveError(f"the worker could not be started: {reason}") from None
        except OSError as error:
            raise LiveError(f"the worker cannot be started ({error.strerror or error}).") from error

    def _launched(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Return the process of a new worker, which sends a message when it is ready."""
        most = settings.live_workers
        with _starting:
            _processes[:] = [process for process in _processes if process.poll() is None]
            if most is not None and len(_processes) >= most:
                raise LiveError(
                    f"others use all {most} workers of this dashboard; try again in some minutes, or look at a shared "
                    "run."
                )
            self._connection, theirs = Pipe()
            with theirs:
                end = str(theirs.fileno())
                process = subprocess.Popen(
                    [*self.command, "--connection", end, "--store", str(self.store), "--idle", str(self.idle_seconds)],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[theirs.fileno()],
                    start_new_session=True,  # Ctrl-C in the server's terminal does not interrupt it
                    env={**environment(), "HF_HUB_OFFLINE": "1"},  # files are downloaded only by a click on a page
                )  # fmt: skip
            _processes.append(process)
        self._owes_message = True
        return process


Answer = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


def serve(connection: Connection, answer: Answer, idle_seconds: float) -> None:
    """Send `answer(operation, arguments)`, or its error, for each request.

    The client sends None if an answer is no longer wanted: `answer` may then raise KeyboardInterrupt, as soon as the
    connection has something to read.
    """
    connection.send(None)  # ready
    with suppress(EOFError, ConnectionError):
        while connection.poll(idle_seconds):
            if (request := connection.recv()) is not None:
                connection.send(_answered(answer, *request))


def _answered(answer: Answer, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any] | Exception | None:
    try:
        return answer(operation, arguments)
    except KeyboardInterrupt:
        return None
    except Exception as error:
        if is_out_of_memory(error):
            return LiveError("out of memory; choose fewer examples, a smaller model, or another device.")
        return error if isinstance(error, SkillvizError) else WorkerBug(traceback.format_exc())
