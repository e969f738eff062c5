"""The messages of client and worker: JSON over multiprocessing.connection, arrays as raw bytes in base64. No pickle.

    request   {"version", "id", "session", "topic" or null, "operation", "arguments"}
    then      {"id", "status": "accepted"}             the worker has it; without this message it was never begun
    then      {"id", "status": "ok", "value": {...}}   or
              {"id", "status": "error", "kind": <class of errors.py, or bug>, "message": "..."}

An array in a value is {"__array__": {"dtype": "float32", "shape": [n, label], "data": base64, little endian}}.
Before the first message each side proves to the other that it has the worker's token.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
from collections.abc import Mapping
from math import prod
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any

import numpy as np

from skillviz import json_text
from skillviz.errors import BUG, LiveError, SkillvizError, error_class
from skillviz.runs.disk_cache import ARRAY, DTYPES

VERSION = 2
LONGEST = 256 * 2**20  # bytes of a message

Message = dict[str, Any]


class WorkerBug(RuntimeError):
    """An error in skillviz that occurred in the worker; its message has the worker's traceback."""


def connect(path: Path, token: str, seconds: float) -> Connection:
    """Return a connection to the worker at a socket; each side proves that it has the token.

    It waits at most `seconds` for a byte. Raises OSError, EOFError or AuthenticationError.
    """
    connection = Client(str(path), family="AF_UNIX")
    try:
        limit(connection, seconds)
        answer_challenge(connection, token.encode())
        deliver_challenge(connection, token.encode())
    except BaseException as error:
        connection.close()
        if isinstance(error, AssertionError):  # answer_challenge asserts that it received a challenge
            raise AuthenticationError("something else listens on the worker's socket") from error
        raise
    return connection


def admit(connection: Connection, token: str, seconds: float) -> None:
    """Accept a client, the counterpart of `connect`; raises OSError, EOFError or AuthenticationError."""
    limit(connection, seconds)
    deliver_challenge(connection, token.encode())
    try:
        answer_challenge(connection, token.encode())
    except AssertionError as error:
        raise AuthenticationError("the client sent no challenge") from error


def limit(connection: Connection, seconds: float) -> None:
    """From now on let a read or write fail with BlockingIOError after `seconds` without a byte."""
    whole = int(seconds)
    interval = struct.pack("ll", whole, max(1, int((seconds - whole) * 1e6)))
    with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        duplicate.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, interval)
        duplicate.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, interval)


def send(connection: Connection, message: Mapping[str, Any]) -> None:
    """Send one message; raises OSError if the other side is gone, TypeError for values that JSON cannot represent."""
    connection.send_bytes(encoded(message))


def receive(connection: Connection, longest: int = LONGEST) -> Message | None:
    """Return the next message, None if the other side is gone; raises LiveError if it is too long or invalid."""
    try:
        data = connection.recv_bytes(longest)
    except EOFError:
        return None
    except OSError as error:
        if error.args != ("bad message length",):
            raise
        raise LiveError(f"a message of more than {longest:,} bytes was refused; request less at once.") from error
    return decoded(data)


def encoded(message: Mapping[str, Any]) -> bytes:
    """Return the message as JSON; raises TypeError for values that JSON cannot represent."""
    return json.dumps(message, default=_plain, separators=(",", ":")).encode()


def decoded(data: bytes) -> Message:
    """Return the message in some bytes; raises LiveError if it is invalid."""
    try:
        message = json_text.loads(data, object_hook=_restored)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LiveError(f"a message could not be read ({error}); is something else on this socket?") from error
    if not isinstance(message, dict):
        raise LiveError("a message was not a JSON object; is something else on this socket?")
    return message


def error_message(error: BaseException, traceback: str) -> Message:
    """Return the message of an error: errors.py's by class and sentence, any other as a bug with its traceback."""
    if isinstance(error, SkillvizError):
        return {"status": "error", "kind": type(error).__name__, "message": str(error.args[0]) if error.args else ""}
    return {"status": "error", "kind": BUG, "message": traceback}


def raise_error(message: Mapping[str, Any]) -> None:
    """Raise the error of a message."""
    if kind := error_class(str(message.get("kind"))):
        raise kind(message.get("message", ""))
    raise WorkerBug(message.get("message", ""))


def _plain(value: Any) -> Any:
    """Convert values that JSON cannot represent: arrays to bytes, numpy's scalars to numbers, mappings to dicts."""
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
    stored = value[ARRAY]
    name, shape = stored["dtype"], tuple(int(k) for k in stored["shape"])
    if name not in DTYPES:
        raise ValueError(f"an array of {name}")
    data = base64.b64decode(stored["data"], validate=True)
    array = np.frombuffer(data, dtype=np.dtype(name).newbyteorder("<")).astype(name)
    if len(array) != prod(shape):
        raise ValueError(f"an array of shape {shape} with {len(array)} entries")
    return array.reshape(shape)
