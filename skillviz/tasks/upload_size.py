"""How large an uploaded file becomes once it is read, measured in a process of its own that may be stopped.

A few hundred kilobytes of Parquet can hold gigabytes, a small CSV or JSON thousands of columns, and four bytes of JSON
(`null`) end the process that reads them. The process that measures then reads the file as the server will. It has a
limit of memory and of time, so what it cannot bear never reaches the server.
"""

from __future__ import annotations

import csv
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from skillviz import json_text
from skillviz.atomic import working_folder
from skillviz.errors import BadData, SkillvizError, is_out_of_memory
from skillviz.tasks.reading import from_file, quiet, separator_of

MOST_ROWS = 1_000_000
MOST_COLUMNS = 256
MOST_CELLS = 5_000_000  # each is an object of Python's own in the server, however few bits it takes in the file
MOST_WITHIN = 1_000_000  # values within cells: elements of lists, and fields
MOST_BYTES = 256 * 2**20  # of all cells, decompressed
MEMORY = 2 * 2**30  # bytes that the process may hold
SECONDS = 30
BATCH = 64  # rows that are decompressed at a time
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)


def check(path: Path, name: str) -> None:
    """Raises BadData, which calls the file by `name`, where it holds more than an upload may."""
    with working_folder() as folder:
        command = [sys.executable, "-m", "skillviz.tasks.upload_size", str(path), str(folder)]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise _too_large(name, f"takes more than {SECONDS} seconds to read") from None
    if -ended.returncode in CRASHES:
        kind = path.suffix[1:].upper()
        raise BadData(f"{name} cannot be read as {kind}: its reader crashes. Save it again, as CSV with plain texts.")
    if ended.returncode:
        raise _too_large(name, f"needs more than {MEMORY / 2**30:.0f} GiB of memory to read")
    if why := ended.stdout.strip():
        raise _too_large(name, why)


def excess(path: Path) -> str:
    """What the file holds too much of, empty where it may be read. A file that is not of its format may be: its
    reader has the words for it."""
    try:
        if path.suffix == ".parquet":
            return _excess_of_parquet(path)
        if path.suffix in (".json", ".jsonl"):
            return _excess_of_json(path)
        return _excess_of_text(path)
    except (ValueError, OSError, RecursionError, csv.Error):  # pyarrow's, JSON's and Unicode's errors are among them
        return ""


def excess_once_read(path: Path, folder: Path) -> str:
    """As `excess`, of what the file's reader makes of it, whose copy lies in `folder`: it may see other columns, as in
    two objects on one line. A file that it refuses may be read: it will be refused again."""
    try:
        with quiet():
            dataset = from_file(path, str(folder))
    except SkillvizError as error:
        if is_out_of_memory(error.__cause__ or error):
            raise MemoryError from error
        return ""
    if why := _excess_of_shape(len(dataset), len(dataset.column_names)):
        return why
    within = 0
    for batch in dataset.data.to_batches(max_chunksize=BATCH):
        within += sum(_within(column) for column in batch.columns)
        if within > MOST_WITHIN:
            return f"has more than {MOST_WITHIN:,} values within its cells (elements of lists, fields)"
    return ""


def _too_large(name: str, why: str) -> BadData:
    return BadData(
        f"{name} {why}; an uploaded file may hold {MOST_ROWS:,} rows, {MOST_COLUMNS} columns, {MOST_CELLS:,} cells and "
        f"{MOST_BYTES // 2**20} MiB once it is decompressed. Keep only the columns of the task, or fewer rows."
    )


def _excess_of_parquet(path: Path) -> str:
    from pyarrow import parquet, types  # heavy: only the process that measures needs it

    with parquet.ParquetFile(path) as file:
        if why := _excess_of_shape(file.metadata.num_rows, file.metadata.num_columns):
            return why
        if any("dictionary" in str(kind) and not types.is_dictionary(kind) for kind in file.schema_arrow.types):
            return "has values within values of a kind whose size cannot be determined"
        size = 0
        for batch in file.iter_batches(batch_size=BATCH):
            size += sum(_size(column) for column in batch.columns)
            if size > MOST_BYTES:
                return f"holds more than {MOST_BYTES // 2**20} MiB once it is decompressed"
    return ""


def _size(column: Any) -> int:
    """Bytes of a column once each row holds its own value."""
    from pyarrow import types  # heavy: only the process that measures needs it

    return (column.dictionary_decode() if types.is_dictionary(column.type) else column).nbytes


def _within(column: Any) -> int:
    """Values within the cells of a column, at any depth."""
    from pyarrow import types  # heavy: only the process that measures needs it

    kind = column.type
    if hasattr(column, "storage"):
        return _within(column.storage)
    if types.is_dictionary(kind):
        return _within(column.dictionary_decode())
    if types.is_struct(kind) or types.is_union(kind):
        return sum(len(column) + _within(column.field(number)) for number in range(kind.num_fields))
    if types.is_nested(kind):  # lists of any kind, and maps
        elements = column.flatten()
        return len(elements) + _within(elements)
    return 0


def _excess_of_json(path: Path) -> str:
    """Rows of JSON Lines, or of one list; a column is a key of any of them, at any depth."""
    text = path.read_text(encoding="utf-8-sig")
    try:
        whole = json_text.loads(text)
        rows: Iterable[Any] = whole if isinstance(whole, list) else [whole]
    except json.JSONDecodeError:
        rows = (json_text.loads(line) for line in text.splitlines() if line.strip())
    keys: set[tuple[str, ...]] = set()
    for number, row in enumerate(rows, start=1):
        keys |= _keys(row, ())
        if why := _excess_of_shape(number, len(keys)):
            return why
    return ""


def _keys(value: Any, above: tuple[str, ...]) -> set[tuple[str, ...]]:
    if isinstance(value, list):
        return set().union(*(_keys(one, above) for one in value))
    if not isinstance(value, dict):
        return set()
    here = {(*above, key) for key in value}
    return here.union(*(_keys(one, (*above, key)) for key, one in value.items()))


def _excess_of_text(path: Path) -> str:
    """Columns of the first line, and lines."""
    csv.field_size_limit(2**31 - 1)
    with path.open(encoding="utf-8-sig", newline="") as lines:
        first = lines.readline()
        columns = len(next(csv.reader([first], delimiter=separator_of(first, path.suffix)), []))
        return _excess_of_shape(sum(1 for _ in lines), columns, cells=0)  # a row may have several lines


def _excess_of_shape(rows: int, columns: int, cells: int | None = None) -> str:
    if rows > MOST_ROWS:
        return f"has more than {MOST_ROWS:,} rows"
    if columns > MOST_COLUMNS:
        return f"has more than {MOST_COLUMNS} columns"
    cells = rows * columns if cells is None else cells
    return f"has more than {MOST_CELLS:,} cells" if cells > MOST_CELLS else ""


def _main(path: Path, folder: Path) -> None:
    for limit, most in ((resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_CPU, SECONDS)):
        resource.setrlimit(limit, (most, most))
    try:
        print(excess(path) or excess_once_read(path, folder))
    except MemoryError:
        sys.exit(1)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
