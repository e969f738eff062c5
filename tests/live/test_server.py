"""Tests of the worker's server by itself: errors of one client do not affect the next."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection, Listener
from pathlib import Path

import pytest

from skillviz.live import server
from skillviz.live.address import address_of
from skillviz.live.client import Client
from skillviz.live.server import Server


class FaultyListener(Listener):
    """A listener whose first clients disconnect before they are accepted, or find no free file descriptor."""

    errors = iter(())

    def accept(self) -> Connection:
        for number in self.errors:
            raise OSError(number, "planted")
        return super().accept()


@pytest.fixture
def served(store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run a server in this process whose first three clients cannot be accepted; return its store."""
    monkeypatch.setattr(server, "Listener", FaultyListener)
    monkeypatch.setattr(FaultyListener, "errors", iter((errno.ECONNABORTED, errno.EMFILE, errno.ECONNABORTED)))
    worker = Server(address_of(store), lambda operation, arguments: {"operation": operation, **arguments}, store, 60)
    thread = threading.Thread(target=worker.serve)
    thread.start()
    while not worker.address.read_token():
        pass
    yield store
    worker.end()
    thread.join(10)
    assert not thread.is_alive()


def test_a_client_that_cannot_be_accepted_does_not_end_the_listening(served: Path) -> None:
    client = Client(served)
    for number in range(2):
        assert client.ask("echo", timeout=10, number=number) == {"operation": "echo", "number": number}
