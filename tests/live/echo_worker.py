"""A worker without models that repeats, sleeps, fails and dies on request. Tests run it as a file."""

import argparse
import os
import signal
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from skillviz.errors import BadSize
from skillviz.live.client import serve

ERRORS = {"fail": BadSize("too many."), "memory": MemoryError(), "bug": ZeroDivisionError("a bug")}


def answer(operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """`echo` gives the arguments back, after `sleep` seconds; `die`, `fail` and `bug` do so. Sleep can be cancelled."""
    end = time.monotonic() + arguments.get("sleep", 0)
    while time.monotonic() < end:
        if connection.poll(0.01):
            raise KeyboardInterrupt
    if operation == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if operation in ERRORS:
        raise ERRORS[operation]
    return {"pid": os.getpid(), **arguments}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, kind in (("--connection", int), ("--store", str), ("--idle", float)):
        parser.add_argument(name, type=kind)
    given = parser.parse_args()
    connection = Connection(given.connection)
    serve(connection, answer, given.idle)
