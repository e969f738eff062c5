"""A worker without models that repeats, sleeps, fails and dies on request. Tests run it as a file."""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skillviz.errors import BadSize
from skillviz.live.address import Address
from skillviz.live.server import Server, end_on_signals


def answer(operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments for `echo`, after `sleep` seconds.

    `die`, `fail`, `memory` and `bug` end with these errors; `strange` returns a value that cannot be sent.
    """
    time.sleep(arguments.get("sleep", 0))
    if operation == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if operation == "fail":
        raise BadSize("too many.")
    if operation == "memory":
        raise MemoryError
    if operation == "bug":
        raise ZeroDivisionError("a bug")
    if operation == "strange":
        return {"value": object()}
    return {"pid": os.getpid(), **arguments}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", type=Path)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--idle", type=float, default=60)
    given = parser.parse_args()
    server = Server(Address(given.address), answer, given.store, given.idle)
    end_on_signals(server)
    server.serve()
