"""One process that reads uploaded files, so that the server parses none.

A few hundred kilobytes of Parquet can hold gigabytes, and a damaged file may end the process that reads it. The process
starts with the server, has limits on memory and processor time, and is replaced once it has ended or has grown. A
request is a JSON header and the file's bytes; an answer is a JSON header and the rows as an Arrow stream of texts.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, Any

import psutil
import pyarrow as pa

from skillviz.errors import BadData, SkillvizError, error_class
from skillviz.tasks import reading
from skillviz.tasks.project import importable
from skillviz.tasks.rows import DataFile, Limits, Rows, as_text, unusable

MEMORY = 2 * 2**30  # most bytes of memory of the process
GROWN = 2**29  # bytes of memory above which the process is replaced before the next file
SECONDS = 30  # seconds of processor time for a file, and of waiting for its turn
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)


class UploadReader:
    """The server's side: starts the process, sends requests, and reports why the process ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._log: IO[bytes] | None = None

    def start(self) -> None:
        """Starts the process unless it runs, so that the first file need not wait for it."""
        with self._lock:
            self._started()

    def read(self, name: str, content: bytes, columns: Sequence[str] | None = None) -> Rows:
        """The rows of an uploaded file, all cells as texts; raises BadData, or SkillvizError if the process fails."""
        if not self._lock.acquire(timeout=SECONDS):
            raise SkillvizError(f"other uploads are being read, and {name} has waited {SECONDS} seconds; try again.")
        try:
            connection = self._started()
            connection.send_bytes(json.dumps({"name": name, "columns": columns}).encode())
            connection.send_bytes(content)
            if not connection.poll(2 * SECONDS):  # processor time passes more slowly on a busy machine
                self._end()
                raise _too_long(name)
            answer: dict[str, Any] = json.loads(connection.recv_bytes())
            rows = None if "error" in answer else connection.recv_bytes()
            if answer["memory"] > GROWN:
                self._end()
                self._started()
        except (EOFError, OSError) as error:
            raise self._why_it_ended(name) from error
        finally:
            self._lock.release()
        if rows is None:
            raise (error_class(answer["error"]) or SkillvizError)(answer["sentence"])
        with pa.ipc.open_stream(rows) as stream:
            table = stream.read_all()
        return Rows(table, table.column_names, answer["left_out"], tuple(answer["notes"]), {}, answer["separated_by"])

    def end(self) -> None:
        """Ends the process."""
        with self._lock:
            self._end()
            if self._log is not None:
                self._log.close()

    def _started(self) -> Connection:
        if self._connection is not None and self._process is not None and self._process.poll() is None:
            return self._connection
        self._end()
        if self._log is not None:
            self._log.close()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # it is read when the process has ended
        self._connection, child = Pipe()
        with child:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(child.fileno())], pass_fds=[child.fileno()],
                stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True,
                env={**os.environ, **importable()},
            )  # fmt: skip
        return self._connection

    def _end(self, patience: float = 0.1) -> int:
        """Ends the process, after `patience` seconds in which it may end by itself, and returns its exit status."""
        code = 0
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=patience)
            self._process.kill()
            code = self._process.wait()
        self._connection = self._process = None
        return code

    def _why_it_ended(self, name: str) -> SkillvizError:
        code = self._end(patience=5)  # the exit status of a crash is the reason
        said = ""
        if self._log is not None:
            self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 4096))
            said = self._log.read().decode("utf-8", errors="replace").strip()
        if -code == signal.SIGXCPU:
            return _too_long(name)
        if "bad_alloc" in said or "Cannot allocate memory" in said:
            return _no_memory(name)
        if -code in CRASHES:
            kind = (reading.ending(name) or "")[1:].upper()
            return BadData(f"{name} cannot be read as {kind}: its reader crashes. Save it again, as CSV or JSONL.")
        killed = "it was killed, as happens where memory is short; try again"
        reason = killed if -code == signal.SIGKILL else (said.splitlines() or [f"it ended with status {code}"])[-1]
        return SkillvizError(
            f"{name} was not read, because the process that reads uploads failed: {reason.rstrip('.')}."
        )


def _too_long(name: str) -> BadData:
    return BadData(f"{name} takes more than {SECONDS} seconds to read; {Limits().allowed}")


def _no_memory(name: str) -> BadData:
    return BadData(f"{name} needs more than {MEMORY / 2**30:.0f} GiB of memory to read; {Limits().allowed}")


reader = UploadReader()
"""The reader of this process."""
atexit.register(reader.end)


def answer(name: str, content: bytes, columns: Sequence[str] | None) -> tuple[dict[str, Any], bytes]:
    """The answer of the process: a header, and the rows as an Arrow stream, empty for an error."""
    try:
        rows = reading.read(DataFile(name, content, Limits()), columns)
        left_out, texts = dict(rows.left_out), {}
        for column in rows.table.column_names:
            try:
                texts[column] = as_text(rows.table[column])
            except (ValueError, OverflowError, NotImplementedError, LookupError) as error:
                left_out[column] = f"cannot be written as text ({error})"
        if not texts:
            column, reason = next(iter(left_out.items()))
            raise unusable(column, name, reason)
        sink = pa.BufferOutputStream()
        table = pa.table(texts)
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        header = {"left_out": left_out, "notes": rows.notes, "separated_by": rows.separated_by}
        return header, sink.getvalue().to_pybytes()
    except SkillvizError as error:
        return {"error": type(error).__name__, "sentence": error.args[0]}, b""
    except MemoryError:
        return {"error": BadData.__name__, "sentence": _no_memory(name).args[0]}, b""


def _serve(connection: Connection) -> None:
    """Answers requests until the other end is closed, also because the server was killed."""
    pa.set_cpu_count(1)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    while True:
        try:
            request, content = json.loads(connection.recv_bytes()), connection.recv_bytes()
        except EOFError:
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + SECONDS, most))
        header, rows = answer(request["name"], content, request["columns"])
        connection.send_bytes(json.dumps({**header, "memory": psutil.Process().memory_info().rss}).encode())
        if "error" not in header:
            connection.send_bytes(rows)


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
