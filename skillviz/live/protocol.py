"""What client and worker say to each other: one JSON object a line, arrays as raw bytes in base64. No pickle.

    request   {"version", "token", "id", "session", "topic" or null, "operation", "arguments"}
    then      {"id", "status": "accepted"}             the worker has it; without this line it was never begun
    then      {"id", "status": "ok", "value": {...}}   or
              {"id", "status": "error", "kind": <class of errors.py, or bug>, "message": "..."}

An array in a value is {"__array__": {"dtype": "float32", "shape": [n, label], "data": base64, little endian}}.
"""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from skillviz import errors
from skillviz.errors import LiveError, SkillvizError

VERSION = 1
BUG = "bug"
ARRAY = "__array__"
DTYPES = ("float32", "float64", "int64", "bool")
LONGEST = 256 * 2**20
PIECE = 2**16

Message = dict[str, Any]


class WorkerBug(RuntimeError):
    """An error in skillviz that showed in the worker; its message holds the worker's traceback."""


class Line:
    """A connection as lines of JSON. Reading gives None once the other side is gone."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._rest = bytearray()

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends one message; raises OSError where the other side is gone."""
        self.connection.sendall(encoded(message))

    def read(self, longest: int = LONGEST) -> Message | None:
        """The next message; raises LiveError where a line is too long or no message."""
        searched = 0
        while (end := self._rest.find(b"\n", searched)) < 0:
            searched = len(self._rest)
            if searched > longest:
                raise LiveError(f"a message of more than {longest:,} bytes was refused; ask for less at once.")
            piece = self.connection.recv(PIECE)
            if not piece:
                return None
            self._rest += piece
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return decoded(line)

    def is_closed(self) -> bool:
        """Whether the other side has gone, without reading anything or waiting."""
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def encoded(message: Mapping[str, Any]) -> bytes:
    """One line of JSON, its newline included."""
    return json.dumps(message, default=_plain, separators=(",", ":")).encode() + b"\n"


def decoded(line: bytes) -> Message:
    """The message of a line; raises LiveError where it is none."""
    try:
        message = json.loads(line, object_hook=_restored)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LiveError(f"a message could not be read ({error}); is something else on this socket?") from error
    if not isinstance(message, dict):
        raise LiveError("a message was no JSON object; is something else on this socket?")
    return message


def error_message(error: BaseException, traceback: str) -> Message:
    """How an error travels: those of errors.py by class and sentence, anything else as a bug with its traceback."""
    if isinstance(error, SkillvizError):
        return {"status": "error", "kind": type(error).__name__, "message": str(error.args[0]) if error.args else ""}
    return {"status": "error", "kind": BUG, "message": traceback}


def raise_error(message: Mapping[str, Any]) -> None:
    """Raises the error that a message tells of."""
    kind = getattr(errors, str(message.get("kind")), None)
    if isinstance(kind, type) and issubclass(kind, SkillvizError):
        raise kind(message.get("message", ""))
    raise WorkerBug(message.get("message", ""))


def _plain(value: Any) -> Any:
    """What JSON has no word for: arrays as bytes, numpy's numbers as numbers, mappings and sequences as they are."""
    if isinstance(value, np.ndarray):
        if value.dtype.name not in DTYPES:
            raise TypeError(f"an array of {value.dtype} cannot be sent; known: {', '.join(DTYPES)}.")
        ordered = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        data = base64.b64encode(ordered.tobytes()).decode("ascii")
        return {ARRAY: {"dtype": value.dtype.name, "shape": list(value.shape), "data": data}}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be sent.")


def _restored(value: dict[str, Any]) -> Any:
    if value.keys() != {ARRAY}:
        return value
    told = value[ARRAY]
    name, shape = told["dtype"], tuple(int(k) for k in told["shape"])
    if name not in DTYPES:
        raise ValueError(f"an array of {name}")
    data = base64.b64decode(told["data"], validate=True)
    array = np.frombuffer(data, dtype=np.dtype(name).newbyteorder("<")).astype(name)
    if len(array) != prod(shape):
        raise ValueError(f"an array of shape {shape} with {len(array)} entries")
    return array.reshape(shape)
