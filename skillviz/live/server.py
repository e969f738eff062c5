"""The worker: listens on a private socket and answers one request after the other, until it has been idle for long."""

from __future__ import annotations

import secrets
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from skillviz.errors import LiveError, SkillvizError, is_out_of_memory
from skillviz.live.address import Address
from skillviz.live.protocol import VERSION, Message, admit, error_message, receive, send
from skillviz.live.waiting import Request, Waiting

IDLE_SECONDS = 600.0
LOOK_SECONDS = 1.0  # interval of the check whether to end
AGAIN_SECONDS = 0.05  # wait after a client that could not be accepted
GONE_SECONDS = 0.1  # interval of the check whether the client is still there
FIRST_SECONDS = 10.0  # a connection that sends nothing for this long is closed
LAST_SECONDS = 2.0  # time limit for sending the last answers
LONGEST_REQUEST = 16 * 2**20

Answer = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


class Server:
    """Listens at an address. `answer(operation, arguments)` is called in the thread of `serve`, never twice at once."""

    def __init__(self, address: Address, answer: Answer, store: Path, idle_seconds: float = IDLE_SECONDS) -> None:
        self.address, self.answer, self.store, self.idle_seconds = address, answer, store, idle_seconds
        self.waiting = Waiting()
        self._ending, self._closed = threading.Event(), threading.Event()
        self._attending: set[threading.Thread] = set()

    def serve(self) -> None:
        """Answer until idle for too long, the store is gone, another worker has the address, or `end` is called.

        Requests that were accepted are answered; the token is removed first.
        """
        self.address.open()
        token = secrets.token_hex(32)
        for socket in self.address.folder.glob("socket-*"):  # left by killed workers
            socket.unlink(missing_ok=True)
        listener = Listener(str(self.address.socket_of(token)), family="AF_UNIX", backlog=64)
        self.address.socket_of(token).chmod(0o600)
        self.address.publish(token)
        threading.Thread(target=self._accept, args=(listener, token), daemon=True).start()
        try:
            self._answer_all(token)
        finally:
            if self._has_address(token):
                self.address.token.unlink(missing_ok=True)
            self._turn_away()
            self._closed.set()
            with suppress(FileNotFoundError):  # another worker has removed the socket
                listener.close()

    def end(self) -> None:
        """Let `serve` return after the current request."""
        self._ending.set()

    def _answer_all(self, token: str) -> None:
        last = time.monotonic()
        while not self._ending.is_set():
            request = self.waiting.next(min(LOOK_SECONDS, self.idle_seconds))
            if request is not None:
                request.finish(self._answered(request))
                last = time.monotonic()
            elif self._should_end(last, token) and self.waiting.close():
                return

    def _should_end(self, last: float, token: str) -> bool:
        idle = time.monotonic() - last >= self.idle_seconds
        return idle or not self.store.is_dir() or not self._has_address(token)

    def _has_address(self, token: str) -> bool:
        """True if the address is still this worker's: another one would have published its own token."""
        return self.address.socket_of(token).exists() and self.address.read_token() == token

    def _turn_away(self) -> None:
        """Send an error to the clients that still wait, and give the last answers time to be sent."""
        while (request := self.waiting.next(0)) is not None:
            request.finish(error_message(LiveError("the worker was told to stop; try again."), ""))
        for thread in list(self._attending):
            thread.join(LAST_SECONDS)

    def _answered(self, request: Request) -> Message:
        try:
            return {"status": "ok", "value": self.answer(request.operation, request.arguments)}
        except Exception as error:
            if is_out_of_memory(error):
                error = LiveError("out of memory; choose fewer examples, a smaller model, or another device.")
            if not isinstance(error, SkillvizError):
                traceback.print_exc(file=sys.stderr)  # bugs are looked up in the log
            return error_message(error, traceback.format_exc())

    def _accept(self, listener: Listener, token: str) -> None:
        """Attend to each client in its own thread; one that cannot be accepted does not delay the others."""
        while not self._closed.is_set():
            try:
                connection = listener.accept()
            except OSError:  # this client hung up, no file is free for it now, or the listener was closed
                self._closed.wait(AGAIN_SECONDS)
                continue
            threading.Thread(target=self._attend, args=(connection, token), daemon=True).start()

    def _attend(self, connection: Connection, token: str) -> None:
        """Read one request, wait for its answer and send it; disconnect a peer that is not this user's client."""
        with connection, self._counted():
            try:
                admit(connection, token, FIRST_SECONDS)
                message = receive(connection, LONGEST_REQUEST)
                if message is None:
                    return
                if message.get("version") != VERSION:
                    raise LiveError(
                        f"the worker speaks version {VERSION}, not {message.get('version')}; stop it and try again."
                    )
                request = Request.of(message)
                if self.waiting.add(request):  # closed: the client sees no `accepted` and starts another worker
                    send(connection, {"id": request.id, "status": "accepted"})
                    self._wait(request, connection)
            except LiveError as error:
                with suppress(OSError):
                    send(connection, {"id": "", **error_message(error, "")})
            except (OSError, EOFError, AuthenticationError):
                return

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Keep the worker from ending before this thread's answer is sent, for at most LAST_SECONDS."""
        self._attending.add(threading.current_thread())
        try:
            yield
        finally:
            self._attending.discard(threading.current_thread())

    def _wait(self, request: Request, connection: Connection) -> None:
        while not request.done.wait(GONE_SECONDS):
            if connection.poll():  # a client sends nothing after its request: it is gone
                self.waiting.withdraw(request)
                return
        try:
            send(connection, request.answer)
        except TypeError as error:
            send(connection, {"id": request.id, **error_message(error, traceback.format_exc())})


def end_on_signals(server: Server) -> None:
    """Let SIGTERM and Ctrl-C end the worker as if it were idle."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.end())
