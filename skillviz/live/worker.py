"""The worker's loop: it answers one request after the other until it has been idle for long or its client is gone."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from skillviz.errors import LiveError, SkillvizError, is_out_of_memory
from skillviz.live.client import WorkerBug

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
