"""Each uploaded file is read by a process of its own, so that the server parses none.

A few hundred kilobytes of Parquet can hold gigabytes, and a damaged file may end the process that reads it. The process
has limits on memory and processor time. Its input is the file's name as a line of JSON, and its bytes; its output is a
line of JSON, and the rows as an Arrow stream of texts.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from skillviz.errors import BadData, SkillvizError, error_class
from skillviz.tasks import reading
from skillviz.tasks.project import importable
from skillviz.tasks.rows import MIB, DataFile, Rows, as_text, is_of_lists, unusable

MEMORY = 2 * 2**30  # most bytes of memory of the process
SECONDS = 30  # seconds of processor time for a file, and of waiting for its turn
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)


@dataclass(frozen=True)
class Limits:
    """Limits on an uploaded file. Columns that are not read, or left out, do not count."""

    rows: int = 1_000_000
    columns: int = 2_000
    cells: int = 20_000_000
    within: int = 1_000_000
    """Values in the lists of a column."""
    size: int = 256 * MIB
    """Bytes of all cells that are read, and of a text file once it is decompressed."""

    @property
    def allowed(self) -> str:
        """The limits as a sentence, with advice."""
        return (
            f"an uploaded file may hold {self.rows:,} rows, {self.columns:,} columns, {self.cells:,} cells and "
            f"{self.size // MIB} MiB once it is decompressed. Keep only the columns of the task, or fewer rows."
        )

    def too_large(self, table: pa.Table) -> dict[str, str]:
        """The columns that are too large, with the reason."""
        left_out = {}
        for name in table.column_names:
            if is_of_lists(table[name].type) and sum(len(c.flatten()) for c in table[name].chunks) > self.within:
                left_out[name] = f"holds more than {self.within:,} values in its lists"
        sizes = {name: table[name].nbytes for name in table.column_names if name not in left_out}
        while sum(sizes.values()) > self.size:
            largest = max(sizes, key=sizes.__getitem__)
            del sizes[largest]
            left_out[largest] = f"holds most of more than {self.size // MIB} MiB once it is decompressed"
        return left_out

    def refuse(self, name: str, rows: int, columns: int) -> None:
        """Raises BadData if a file with these numbers of rows and columns exceeds a limit."""
        for what, count, most in (
            ("rows", rows, self.rows), ("columns", columns, self.columns), ("cells", rows * columns, self.cells),
        ):  # fmt: skip
            if count > most:
                raise BadData(f"{name} has more than {most:,} {what}; {self.allowed}")


LIMITS = Limits()
_turn = threading.Lock()  # files are read one after the other, as each may take MEMORY


def read(name: str, content: bytes) -> Rows:
    """The rows of an uploaded file, all cells as texts; raises BadData, or SkillvizError if the process fails."""
    output = in_a_process(name, content)
    end = output.index(b"\n")
    header: dict[str, Any] = json.loads(output[:end])
    if "error" in header:
        raise (error_class(header["error"]) or SkillvizError)(header["sentence"])
    with pa.ipc.open_stream(memoryview(output)[end + 1 :]) as stream:
        table = stream.read_all()
    return Rows(table, table.column_names, header["left_out"], tuple(header["notes"]), {}, header["separated_by"])


def in_a_process(name: str, content: bytes) -> bytes:
    """The output of a process that reads this file; raises BadData or SkillvizError if it fails."""
    if not _turn.acquire(timeout=SECONDS):
        raise SkillvizError(f"other uploads are being read, and {name} has waited {SECONDS} seconds; try again.")
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__], input=json.dumps(name).encode() + b"\n" + content, capture_output=True,
            check=False, start_new_session=True, timeout=2 * SECONDS, env={**os.environ, **importable()},
        )  # fmt: skip
    except subprocess.TimeoutExpired:  # processor time passes more slowly on a busy machine
        raise _too_long(name) from None
    except OSError as error:
        raise _failed(name, str(error)) from error
    finally:
        _turn.release()
    if done.returncode:
        raise _why_it_ended(name, done.returncode, done.stderr.decode("utf-8", errors="replace").strip())
    return done.stdout


def _why_it_ended(name: str, status: int, said: str) -> SkillvizError:
    if -status == signal.SIGXCPU:
        return _too_long(name)
    if "bad_alloc" in said or "Cannot allocate memory" in said:
        return _no_memory(name)
    if -status in CRASHES:
        kind = (reading.ending(name) or "")[1:].upper()
        return BadData(f"{name} cannot be read as {kind}: its reader crashes. Save it again, as CSV or JSONL.")
    killed = "it was killed, as happens where memory is short; try again"
    reason = killed if -status == signal.SIGKILL else (said.splitlines() or [f"it ended with status {status}"])[-1]
    return _failed(name, reason)


def _failed(name: str, reason: str) -> SkillvizError:
    return SkillvizError(f"{name} was not read, because the process that reads uploads failed: {reason.rstrip('.')}.")


def _too_long(name: str) -> BadData:
    return BadData(f"{name} takes more than {SECONDS} seconds to read; {LIMITS.allowed}")


def _no_memory(name: str) -> BadData:
    return BadData(f"{name} needs more than {MEMORY / 2**30:.0f} GiB of memory to read; {LIMITS.allowed}")


def limited(name: str, content: bytes, limits: Limits = LIMITS) -> Rows:
    """The rows of a file within the limits; a column that is too large is left out."""
    rows = reading.read(DataFile(name, content, limits.size))
    left_out = limits.too_large(rows.table)
    table = rows.table.drop_columns(list(left_out))
    limits.refuse(name, table.num_rows, table.num_columns)
    return replace(rows, table=table, left_out={**rows.left_out, **left_out})


def output_of(name: str, content: bytes) -> bytes:
    """The output of the process: a header as a line of JSON, and the rows as an Arrow stream, empty for an error."""
    header, rows = _answer(name, content)
    return json.dumps(header).encode() + b"\n" + rows


def _answer(name: str, content: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        rows = limited(name, content)
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


def main() -> None:
    """Set the limits of this process and read the file in its input."""
    pa.set_cpu_count(1)
    for limit, most in ((resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_CPU, SECONDS)):
        resource.setrlimit(limit, (most, resource.getrlimit(limit)[1]))
    sys.stdout.buffer.write(output_of(json.loads(sys.stdin.buffer.readline()), sys.stdin.buffer.read()))


if __name__ == "__main__":
    main()
