"""Messages come through whole, arrays to the bit; nothing is pickled, and what is no message is refused."""

from __future__ import annotations

import ast
import json
import socket
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from skillviz.errors import BadSize, LiveError, Superseded
from skillviz.live.protocol import ARRAY, Line, WorkerBug, decoded, encoded, error_message, raise_error

PROJECT = Path(__file__).resolve().parents[2]
words = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(max_size=5), words, max_size=3))
def test_a_message_comes_through(message: dict) -> None:
    line = encoded(message)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert decoded(line) == message


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
    "line",
    [
        b"\x80\x04\x95",
        b"[1]",
        b"{",
        json.dumps({ARRAY: {"dtype": "object", "shape": [1], "data": ""}}).encode(),
        json.dumps({ARRAY: {"dtype": "float32", "shape": [2], "data": "AAAAAA=="}}).encode(),
        json.dumps({ARRAY: {"dtype": "float32", "shape": [1], "data": "AAA"}}).encode(),
        json.dumps({ARRAY: 3}).encode(),
    ],
)
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(LiveError):
        decoded(line)


def test_lines_are_read_one_by_one() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        line = Line(ours)
        for part in (b'{"a": 1}\n{"b"', b": 2", b"}\n"):
            theirs.sendall(part)
        assert not line.is_closed()
        assert line.read() == {"a": 1} and line.read() == {"b": 2}
        theirs.sendall(b'{"half": ')
        theirs.close()
        assert line.read() is None and line.is_closed()


def test_a_line_without_end_is_refused() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"x" * 1000)
        with pytest.raises(LiveError, match="more than 100 bytes"):
            Line(ours).read(longest=100)


def test_errors_keep_their_class_and_sentence() -> None:
    for error in (BadSize("a size."), LiveError("a word."), Superseded("newer.")):
        with pytest.raises(type(error)) as found:
            raise_error(error_message(error, ""))
        assert type(found.value) is type(error) and found.value.args == error.args
    with pytest.raises(WorkerBug, match="line 7"):
        raise_error(error_message(ValueError("x"), "line 7"))
    with pytest.raises(WorkerBug):  # a name that is no error of ours is not looked up further
        raise_error({"kind": "annotations", "message": ""})


def test_nothing_is_pickled() -> None:
    """Neither pickle nor what unpickles by itself is imported by the live layer."""
    for path in (PROJECT / "skillviz" / "live").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        roots = {name.split(".")[0] for name in names}
        assert not roots & {"pickle", "dill", "cloudpickle", "joblib", "shelve", "multiprocessing", "marshal"}, path
        assert "torch.load" not in path.read_text() and "allow_pickle" not in path.read_text(), path
