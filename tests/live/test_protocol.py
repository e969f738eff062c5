"""Tests of messages: complete, arrays exact to the bit, nothing pickled, and invalid messages refused."""

from __future__ import annotations

import ast
import json
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing import AuthenticationError, Pipe
from multiprocessing.connection import Listener, deliver_challenge
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from skillviz.errors import BadSize, LiveError, Superseded
from skillviz.live.protocol import (
    ARRAY,
    WorkerBug,
    admit,
    connect,
    decoded,
    encoded,
    error_message,
    raise_error,
    receive,
    send,
)

PROJECT = Path(__file__).resolve().parents[2]
PLAIN = {"multiprocessing", "multiprocessing.connection"}
words = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(max_size=5), words, max_size=3))
def test_a_message_comes_through(message: dict) -> None:
    assert decoded(encoded(message)) == message


@settings(max_examples=50, deadline=None)
@given(
    arrays.arrays(
        st.sampled_from(["float32", "float64", "int64", "bool"]),
        arrays.array_shapes(min_dims=0, max_dims=3, min_side=0),
    )
)
def test_an_array_comes_through_to_the_bit(array: np.ndarray) -> None:
    found = decoded(encoded({"value": {"logits": array}}))["value"]["logits"]
    assert found.dtype == array.dtype and found.shape == array.shape and found.tobytes() == array.tobytes()


def test_strange_arrays_are_laid_out_plainly() -> None:
    array = np.arange(12, dtype=">f4").reshape(3, 4).T
    found = decoded(encoded({"a": array, "n": np.float32(1.5), "t": (1, 2)}))
    assert np.array_equal(found["a"], array) and found["n"] == 1.5 and found["t"] == [1, 2]


@pytest.mark.parametrize("value", [object(), np.array([object()]), np.array(["a"]), {1, 2}])
def test_what_cannot_be_sent_is_said(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        encoded({"value": value})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x04\x95",
        b"[1]",
        b"{",
        json.dumps({ARRAY: {"dtype": "object", "shape": [1], "data": ""}}).encode(),
        json.dumps({ARRAY: {"dtype": "float32", "shape": [2], "data": "AAAAAA=="}}).encode(),
        json.dumps({ARRAY: {"dtype": "float32", "shape": [1], "data": "AAA"}}).encode(),
        json.dumps({ARRAY: 3}).encode(),
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(LiveError):
        decoded(data)


def test_messages_are_read_one_by_one() -> None:
    ours, theirs = Pipe()
    with ours, theirs:
        send(theirs, {"a": 1})
        send(theirs, {"b": "x" * 100_000})
        assert receive(ours) == {"a": 1} and receive(ours) == {"b": "x" * 100_000}
        theirs.close()
        assert ours.poll() and receive(ours) is None


def test_a_message_that_is_too_long_is_refused() -> None:
    ours, theirs = Pipe()
    with ours, theirs:
        send(theirs, {"a": "x" * 1000})
        with pytest.raises(LiveError, match="more than 100 bytes"):
            receive(ours, longest=100)


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Listen in a separate folder with a short path."""
    folder = Path(tempfile.mkdtemp(prefix="sv-"))
    with Listener(str(folder / "socket"), family="AF_UNIX") as found:
        yield found
    shutil.rmtree(folder)


def admitted(listener: Listener, token: str, seconds: float = 5.0) -> list[Any]:
    """Start to accept one connection; the list will hold its authentication error, or None."""
    outcome: list[Any] = []

    def accept() -> None:
        with listener.accept() as connection:
            try:
                outcome.append(admit(connection, token, seconds))
            except Exception as error:
                outcome.append(error)

    threading.Thread(target=accept, daemon=True).start()
    return outcome


def until(outcome: list[Any]) -> Any:
    end = time.monotonic() + 30
    while not outcome and time.monotonic() < end:
        time.sleep(0.01)
    return outcome[0]


def test_each_side_proves_that_it_knows_the_token(listener: Listener) -> None:
    path = Path(str(listener.address))
    outcome = admitted(listener, "right")
    connect(path, "right", 5.0).close()
    assert until(outcome) is None
    outcome = admitted(listener, "right")
    with pytest.raises(AuthenticationError):
        connect(path, "wrong", 5.0)
    assert isinstance(until(outcome), AuthenticationError)


def test_a_worker_that_does_not_know_the_token_is_no_worker(listener: Listener) -> None:
    def pretend() -> None:
        with listener.accept() as connection:
            deliver_challenge(connection, b"right")
            connection.recv_bytes()
            connection.send_bytes(b"whatever")
            assert connection.recv_bytes() == b"#FAILURE#"

    threading.Thread(target=pretend, daemon=True).start()
    with pytest.raises(AuthenticationError):
        connect(Path(str(listener.address)), "right", 5.0)


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x00\x00\x00\x02hi" * 9, b"\x80\x04"])
def test_junk_is_hung_up_on(listener: Listener, junk: bytes) -> None:
    outcome = admitted(listener, "right", seconds=0.3)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(listener.address))
        client.sendall(junk)
        assert isinstance(until(outcome), (OSError, EOFError, AuthenticationError))


def test_silence_is_hung_up_on(listener: Listener) -> None:
    outcome = admitted(listener, "right", seconds=0.2)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(listener.address))
        assert isinstance(until(outcome), BlockingIOError)


def test_errors_keep_their_class_and_sentence() -> None:
    for error in (BadSize("a size."), LiveError("a word."), Superseded("newer.")):
        with pytest.raises(type(error)) as found:
            raise_error(error_message(error, ""))
        assert type(found.value) is type(error) and found.value.args == error.args
    with pytest.raises(WorkerBug, match="line 7"):
        raise_error(error_message(ValueError("x"), "line 7"))
    with pytest.raises(WorkerBug):  # a name that is not an error of skillviz is not looked up
        raise_error({"kind": "annotations", "message": ""})


def test_nothing_is_pickled() -> None:
    """The live layer imports nothing that unpickles, and never calls a connection's `send` or `recv`, which do."""
    for path in (PROJECT / "skillviz" / "live").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        roots = {name.split(".")[0] for name in names}
        assert not roots & {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}, path
        assert {name for name in names if name.startswith("multiprocessing")} <= PLAIN, path
        called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not called & {"send", "recv"}, path
        assert "torch.load" not in path.read_text() and "allow_pickle" not in path.read_text(), path
