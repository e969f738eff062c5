"""Requests to the worker, which is started if none listens. Does not import torch."""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from filelock import Timeout

from skillviz import read_only
from skillviz.errors import LiveError
from skillviz.live.address import ENVIRONMENT, Address, address_of
from skillviz.live.protocol import VERSION, Message, connect, raise_error, receive, send
from skillviz.locks import lock_at
from skillviz.runs import quota
from skillviz.runs.process import environment
from skillviz.tasks.project import LIVE_WORKERS_VARIABLE

SECONDS = 120.0  # a first request may load a model
POLL_SECONDS = 0.02
AGAIN_SECONDS = 0.2
LOOK_SECONDS = 2.0  # time for another store's worker to show that it runs
ATTEMPTS = 3
TOO_LONG = "the worker took too long; ask for fewer examples, or wait until it is free."
LONGEST_LOG = 2**20  # bytes of a log to which the next worker still appends

_STARTED: list[subprocess.Popen[bytes]] = []
"""The workers that this process started and that may still run, kept so that their exit status is collected here."""


class Client:
    """Sends requests to the worker of one store. It keeps no connection, so many threads can use it.

    `session` identifies the requests' source: a newer request supersedes an older one of the same session and topic.
    `idle_seconds` and `command` are for a worker that this client has to start.
    """

    def __init__(
        self,
        store: Path | str,
        session: str | None = None,
        idle_seconds: float | None = None,
        command: tuple[str, ...] = (sys.executable, "-m", "skillviz", "worker"),
    ) -> None:
        self.store = Path(store).resolve()
        self.session = session or secrets.token_hex(8)
        self.idle_seconds, self.command = idle_seconds, command
        self.address = address_of(self.store)

    def ask(
        self, operation: str, *, topic: str | None = None, timeout: float = SECONDS, **arguments: Any
    ) -> dict[str, Any]:
        """Return the operation's answer (see `live.operations`); arrays are numpy arrays.

        With a `topic`, a request of this session that still waits under the same topic raises Superseded at its own
        caller. Raises the operation's own errors, LiveError if there is no answer within `timeout` seconds or the
        worker ends while answering, and WorkerBug for an error in skillviz.
        """
        read_only.refuse()  # the worker stores its answers
        end = time.monotonic() + timeout
        message: dict[str, Any] = {
            "version": VERSION, "id": secrets.token_hex(8), "session": self.session, "topic": topic,
            "operation": operation, "arguments": arguments,
        }  # fmt: skip
        for _ in range(ATTEMPTS):
            with self._connected(end) as connection:
                answer = _answer(connection, message, end)
            if answer is None:
                time.sleep(AGAIN_SECONDS)
                continue
            if answer.get("status") == "error":
                raise_error(answer)
            value = answer.get("value")
            if answer.get("id") != message["id"] or not isinstance(value, dict):
                raise LiveError("the worker's answer belongs to another request; try again.")
            return value
        raise LiveError(f"the worker keeps stopping before it takes a request; its log, {self.address.log}, says why.")

    def is_running(self) -> bool:
        """True if a worker listens."""
        connection = _connection(self.address, time.monotonic() + SECONDS)
        if connection is None:
            return False
        connection.close()
        return True

    def _connected(self, end: float) -> Connection:
        """Return a connection to the worker, which is started if there is none."""
        connection = _connection(self.address, end)
        if connection is not None:
            return connection
        try:
            self.address.open()
            left = max(0.0, end - time.monotonic())
            # if workers are counted, no other store's worker may start meanwhile
            others = lock_at(self.address.lock_of_all, timeout=left) if self._most() is not None else nullcontext()
            with lock_at(self.address.lock, timeout=left), others:
                # another process may have started it while this one waited for the lock
                return _connection(self.address, end) or self._started(end)
        except Timeout as error:
            raise LiveError("another process has been starting the worker for too long; try again.") from error
        except OSError as error:
            raise LiveError(
                f"the worker cannot be started in {self.address.folder} ({error.strerror or error}); name another "
                f"place in ${ENVIRONMENT}."
            ) from error

    def _started(self, end: float) -> Connection:
        most = self._most()
        if most is not None and self._running_elsewhere(end) >= most:
            raise LiveError(
                f"others use all {most} workers of this dashboard; try again in some minutes, or look at a shared run."
            )
        self._make_store()
        words = [*self.command, "--address", str(self.address.folder), "--store", str(self.store)]
        words += [] if self.idle_seconds is None else ["--idle", str(self.idle_seconds)]
        _STARTED[:] = [process for process in _STARTED if process.poll() is None]
        with self._log() as log:
            log_start = log.tell()
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**environment(), "HF_HUB_OFFLINE": "1"},  # missing files are downloaded only by a click on a page
            )  # fmt: skip
        _STARTED.append(process)
        while time.monotonic() < end:
            connection = _connection(self.address, end)
            if connection is not None:
                return connection
            if process.poll() is not None:
                printed = self.address.log.read_bytes()[log_start:].decode("utf-8", errors="replace").strip()
                reason = printed.splitlines()[-1] if printed else "it ended without a word."
                raise LiveError(f"the worker could not be started: {reason}")
            time.sleep(POLL_SECONDS)
        raise LiveError(f"the worker is still starting; try again. Its log is {self.address.log}.")

    def _most(self) -> int | None:
        """Return how many workers may run for all stores together; None without a limit. Raises BadInput."""
        return quota.whole(LIVE_WORKERS_VARIABLE)

    def _running_elsewhere(self, end: float) -> int:
        """Return how many workers of other stores listen."""
        count = 0
        for other in self.address.others():
            with suppress(LiveError):
                if (connection := _connection(other, min(end, time.monotonic() + LOOK_SECONDS))) is not None:
                    connection.close()
                    count += 1
        return count

    def _make_store(self) -> None:
        """Make the folder of runs if it is missing, because a worker ends when it is gone. Raises LiveError."""
        try:
            self.store.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LiveError(
                f"the folder of runs {self.store} cannot be made ({error.strerror or error}), and the worker keeps its "
                "answers there; name another folder in SKILLVIZ_RUNS."
            ) from error

    def _log(self) -> IO[bytes]:
        """Open the worker's log at its end, so the last worker's output is kept. A long log is moved aside first."""
        log = self.address.log
        if log.exists() and log.stat().st_size > LONGEST_LOG:
            log.replace(log.with_suffix(".old.txt"))
        return log.open("ab")


def _connection(address: Address, end: float) -> Connection | None:
    """Return a connection, None if no worker listens: it was never started, was killed, or is just ending."""
    token = address.read_token()
    if not token:
        return None
    try:
        return connect(address.socket_of(token), token, max(0.001, end - time.monotonic()))
    except (FileNotFoundError, ConnectionError, EOFError):
        return None
    except BlockingIOError as error:
        raise LiveError(TOO_LONG) from error
    except AuthenticationError as error:
        raise LiveError(f"the worker at {address.folder} refuses this user's token; stop it and try again.") from error
    except OSError as error:
        raise LiveError(f"the worker's socket {address.socket} cannot be used ({error}).") from error


def _answer(connection: Connection, message: Message, end: float) -> Message | None:
    """Return the worker's answer, None if it ended before it accepted the request, which may then be sent again."""
    accepted = False
    try:
        send(connection, message)
        while connection.poll(max(0.0, end - time.monotonic())):
            answer = receive(connection)
            if answer is None:
                break
            if answer.get("status") != "accepted":
                return answer
            accepted = True
        else:
            raise LiveError(TOO_LONG)
    except BlockingIOError as error:
        raise LiveError(TOO_LONG) from error
    except OSError:  # the worker is gone
        pass
    if accepted:
        raise LiveError(
            "the worker stopped while it was answering (killed, or out of memory); the next request starts a new one."
        )
    return None
