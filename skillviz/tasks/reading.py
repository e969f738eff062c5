"""The rows of a data file or of a split of a hub data set."""

from __future__ import annotations

import itertools
import json
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet, types

from skillviz import json_text
from skillviz.errors import BadData, DataNotFound, first_line, is_out_of_memory
from skillviz.serving import read_only
from skillviz.tasks import delimited
from skillviz.tasks.rows import CHUNK, ClassNames, Columns, DataFile, Rows, is_of_lists, unusable
from skillviz.tasks.task import Hub, Task

TEXTS = (types.is_string, types.is_large_string, types.is_string_view)
PLAIN = (
    *TEXTS, types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_date, types.is_timestamp,
    types.is_time, types.is_duration, types.is_null,
)  # fmt: skip
BYTES = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)


def _parquet(file: DataFile, wanted: Sequence[str] | None) -> Rows:
    """The columns of a Parquet file, with the class names that `datasets` stores. Raises BadData, pa.ArrowException."""
    columns = Columns(file, wanted)
    with file.binary() as stored, parquet.ParquetFile(stored) as opened:
        schema = opened.schema_arrow
        if len(set(schema.names)) != len(schema.names):
            raise BadData(f"{file.shown} has two columns of one name; give each a name of its own.")
        usable = [field.name for field in schema if columns.reads(field.name) and _is_usable(field, columns)]
        table = opened.read(columns=usable, use_threads=False).select(usable)
        decoded = {name: _decoded(name, table[name], columns) for name in usable}
        columns.add({name: column for name, column in decoded.items() if column is not None}, opened.metadata.num_rows)
    return columns.rows(schema.names, features={field.name: ClassNames() for field in schema} | _class_names(schema))


def _is(kind: pa.DataType, tests: Sequence[Any]) -> bool:
    return any(test(kind) for test in tests)


def _is_usable(field: pa.Field, columns: Columns) -> bool:
    """True if a task can use a column, by its type."""
    if reason := _unusable(field.type):
        columns.leave_out(field.name, reason)
    return not reason


def _unusable(kind: pa.DataType) -> str:
    """The reason why no task can use a column of this type; empty if a task can."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    elif is_of_lists(kind):
        if _is(kind.value_type, PLAIN):
            return ""
        return f"holds lists of the type {kind.value_type}"
    if _is(kind, PLAIN):
        return ""
    return "holds bytes" if _is(kind, BYTES) else f"holds values of the type {kind}"


def _decoded(name: str, column: pa.ChunkedArray, columns: Columns) -> pa.ChunkedArray | None:
    """A column in which each row has its own value; None if it is left out because it is not text."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is(column.type, TEXTS):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            columns.leave_out(name, "is not UTF-8 text")
            return None
    return column


def _class_names(schema: pa.Schema) -> dict[str, ClassNames]:
    """The class names that `datasets` stores in a file that it writes, by column."""
    try:
        stored = json_text.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {
            name: ClassNames(tuple(map(str, feature["names"])))
            for name, feature in stored.items()
            if feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list)
        }
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError):
        return {}


ROWS_KEYS = ("data", "rows", "examples", "records", "instances", "items", "train", "validation", "test", "dev")
"""Keys under which files hold their rows."""
WAY_OUT = "write one object per row: with pandas, df.to_json(path, orient='records', lines=True)"


def _json(file: DataFile, wanted: Sequence[str] | None) -> Rows:
    """The columns of a file of objects; a key that a row lacks is a missing value. Raises BadData, ValueError."""
    columns, names = Columns(file, wanted), dict[str, None]()
    rows = _objects(file)
    while chunk := list(itertools.islice(rows, CHUNK)):
        for row in chunk:
            names |= dict.fromkeys(row)
        read_now = [name for name in names if columns.reads(name)]
        columns.add_values({name: [row.get(name) for row in chunk] for name in read_now}, len(chunk))
    return columns.rows(list(names))


def _objects(file: DataFile) -> Iterator[dict[str, Any]]:
    """The rows of a file in any of the supported shapes."""
    with file.text() as lines:
        written = (line for line in lines if line.strip())
        first, second = next(written, ""), next(written, "")
    if not first:
        return
    try:
        value = _parsed(first)
    except json.JSONDecodeError:
        with file.text() as whole:
            yield from _shaped(_document(whole.read()), file)
        return
    if second:
        yield from _of_lines(file)
    else:
        yield from _shaped(value, file)


def _of_lines(file: DataFile) -> Iterator[dict[str, Any]]:
    with file.text() as lines:  # lines end with \n, \r\n or \r only: U+2028 may be part of a text
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = _parsed(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number} is not JSON ({error.msg}); {WAY_OUT}") from None
            if not isinstance(row, dict):
                raise ValueError(f"line {number} is not an object in braces; {WAY_OUT}")
            yield row


def _document(text: str) -> Any:
    try:
        return _parsed(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}" if error.doc else "it"
        raise ValueError(f"{place} is not JSON ({error.msg}); {WAY_OUT}") from None


def _parsed(text: str) -> Any:
    return json_text.loads(text, DECODER.decode)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object; raises ValueError for a repeated key, of which a plain reader would keep only the last value."""
    read = dict(pairs)
    if len(read) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"an object gives the key '{twice}' twice")
    return read


DECODER = json.JSONDecoder(object_pairs_hook=_object)


def _shaped(value: Any, file: DataFile) -> Iterator[dict[str, Any]]:
    """The rows of a whole document: a list of objects, such a list under a key, or a pandas table by columns, by
    rows, or split into names and rows."""
    if isinstance(value, list):
        for number, row in enumerate(value, start=1):
            if not isinstance(row, dict):
                raise ValueError(f"element {number} of its list is not an object in braces; {WAY_OUT}")
            yield row
        return
    if not isinstance(value, dict):
        raise BadData(f"{file.shown} holds a single value and no rows; {WAY_OUT}.")
    lists = [key for key, rows in value.items() if _is_list_of(rows, dict)]
    if isinstance(value.get("columns"), list) and _is_list_of(value.get("data"), list):
        yield from _split(value["columns"], value["data"], file)
    elif rows := _under_a_key(value, lists):
        yield from rows
    elif len(lists) > 1 and len(lists) == len(value):
        raise BadData(f"{file.shown} holds several lists of rows: {', '.join(lists)}; save each in a file of its own.")
    elif value and all(isinstance(one, dict) for one in value.values()):
        yield from _by_columns_or_rows(value, file)
    elif value and all(isinstance(one, list) for one in value.values()):
        yield from _transposed(value, file)
    elif value:
        yield value


def _is_list_of(value: Any, kind: type) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, kind) for one in value)


def _under_a_key(value: Mapping[str, Any], lists: Sequence[str]) -> list[dict[str, Any]]:
    """The list of rows under a key of an object, next to its metadata; empty if the object is itself a row."""
    named = [key for key in lists if key in ROWS_KEYS]
    chosen = named if len(named) == 1 else lists if len(value) == 1 else []
    return list(value[chosen[0]]) if chosen else []


def _split(names: Sequence[Any], rows: Sequence[Sequence[Any]], file: DataFile) -> Iterator[dict[str, Any]]:
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise BadData(f"{file.shown}: its 'columns' must be the columns' names, each once; {WAY_OUT}.")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            raise BadData(f"{file.shown} has {len(row)} values in row {number} and {len(names)} columns; {WAY_OUT}.")
        yield dict(zip(names, row, strict=True))


def _by_columns_or_rows(value: Mapping[str, Mapping[str, Any]], file: DataFile) -> Iterator[dict[str, Any]]:
    """The rows of a pandas table: {column: {row: value}}, or {row: {column: value}} if outer keys are row numbers."""
    inner = list(next(iter(value.values())))
    are_rows = all(key.isdecimal() for key in value)
    if are_rows == all(key.isdecimal() for key in inner) or any(set(one) != set(inner) for one in value.values()):
        raise BadData(f"{file.shown} holds objects within an object, of which neither are clearly rows; {WAY_OUT}.")
    if are_rows:
        yield from (dict(row) for row in value.values())
    else:
        yield from ({name: column[key] for name, column in value.items()} for key in inner)


def _transposed(value: Mapping[str, Sequence[Any]], file: DataFile) -> Iterator[dict[str, Any]]:
    lengths = {name: len(column) for name, column in value.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise BadData(f"{file.shown} holds a list per column, of several lengths ({counts}); {WAY_OUT}.")
    yield from (dict(zip(value, row, strict=True)) for row in zip(*value.values(), strict=True))


READERS = {
    ".jsonl": _json,
    ".json": _json,
    ".csv": lambda file, columns: delimited.read(file, ",", columns),
    ".tsv": lambda file, columns: delimited.read(file, "\t", columns),
    ".parquet": _parquet,
    ".ndjson": _json,
    ".txt": lambda file, columns: delimited.read(file, "\t", columns),
}
PACKED = ".gz"
FORMATS = (*READERS, *(f"{ending}{PACKED}" for ending in READERS if ending != ".parquet"))
"""The endings of the names of files that can be read."""
ALLOWED = f"{', '.join(READERS)}; all but Parquet also with {PACKED}"


def ending(name: str) -> str | None:
    """The format of a file of this name, a key of READERS; None if it cannot be read."""
    plain = name.lower().removesuffix(PACKED)
    found = next((suffix for suffix in READERS if plain.endswith(suffix)), None)
    return found if f"{found}{PACKED}" in FORMATS or plain == name.lower() else None


def read(file: DataFile, columns: Sequence[str] | None = None) -> Rows:
    """The rows of a file with these columns, or with all usable ones; raises BadData. MemoryError is not caught."""
    kind = ending(file.shown)
    if kind is None:
        raise BadData(f"{file.shown} cannot be read; allowed: {ALLOWED}.")
    try:
        return READERS[kind](file, columns)
    except (BadData, MemoryError):
        raise
    except UnicodeError as error:
        byte = f" (byte {error.object[error.start]:#x})" if isinstance(error, UnicodeDecodeError) else ""
        raise BadData(f"{file.shown} is not UTF-8 text{byte}; save it as UTF-8, in Excel as 'CSV UTF-8'.") from error
    except (EOFError, OSError, ValueError, zlib.error, pa.ArrowException) as error:
        if is_out_of_memory(error):
            raise MemoryError from error
        raise BadData(f"{file.shown} cannot be read as {kind[1:].upper()}: {_first_cause(error)}.") from error


def from_file(path: Path, columns: Sequence[str] | None = None) -> Rows:
    """The rows of the user's own file; see `read`."""
    return read(DataFile(str(path), path), columns)


def cells(dataset: Any, column: str, shown: str) -> list[Any]:
    """The values of a column; raises BadData if they cannot be read, which is only known after reading."""
    try:
        values = list(dataset[column][:])
    except UnicodeDecodeError as error:
        raise BadData(f"{shown} is not UTF-8 text (column '{column}'); save it as UTF-8.") from error
    except (ValueError, OverflowError, NotImplementedError) as error:  # includes the errors of pyarrow
        raise unusable(column, shown, f"cannot be read ({_first_cause(error)})") from error
    if any(isinstance(value, bytes) for value in values):
        raise unusable(column, shown, "holds bytes")
    return values


def from_cache(data: Hub, split: str) -> Any | None:
    """A split of a data set in the cache of the hub's client; None if it is not there. Does not use the network."""
    from datasets.packaged_modules.cache.cache import Cache  # heavy import

    if data.revision is not None:  # the cache identifies its copy by the commit alone
        return None
    try:
        copy = Cache(
            repo_id=data.id, dataset_name=data.id.rpartition("/")[2], config_name=data.config, version="auto",
            hash="auto",
        )  # fmt: skip
        return copy.as_dataset(split=split)
    except (ValueError, OSError):
        return None


def is_on_hub_alone(task: Task) -> bool:
    """True if the task's data are on the hub and not in its local cache. Does not use the network."""
    return isinstance(task.data, Hub) and from_cache(task.data, task.data.test) is None


def from_hub(data: Hub, split: str, task: Task) -> Any:
    """A split of a data set, from the hub's cache or else from the hub; raises DataNotFound if it is in neither."""
    with quiet():
        return _from_hub(data, split, task)


def _from_hub(data: Hub, split: str, task: Task) -> Any:
    if (copy := from_cache(data, split)) is not None:
        return copy
    read_only.refuse()
    from datasets import load_dataset  # heavy import

    try:
        return load_dataset(data.id, data.config, split=split, revision=data.revision)
    except Exception as error:  # the hub's, the network's and the loader's errors have no common class
        offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
        why = "HF_HUB_OFFLINE is set and it is not in the local cache" if offline else _first_cause(error)
        raise DataNotFound(
            f"task '{task.name}': {data.title} could not be downloaded from the Hugging Face Hub: {why}; "
            "or put the data in files of your own and write a task file (docs/add-a-task.md)."
        ) from error


def _first_cause(error: BaseException) -> str:
    """The first line of the innermost error, without its final period."""
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error).rstrip(".")


@contextmanager
def quiet() -> Iterator[None]:
    """Turns off the progress bars and log lines of `datasets` inside the block."""
    import datasets  # heavy import

    shown, level = not datasets.are_progress_bars_disabled(), datasets.logging.get_verbosity()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    try:
        yield
    finally:
        datasets.logging.set_verbosity(level)
        if shown:
            datasets.enable_progress_bars()
