"""JSON: one object per line, a list of objects, and the other shapes that pandas and data tools write."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from skillviz import json_text
from skillviz.errors import BadData
from skillviz.tasks.rows import CHUNK, Columns, DataFile, Rows

ROWS_KEYS = ("data", "rows", "examples", "records", "instances", "items", "train", "validation", "test", "dev")
"""Keys under which files hold their rows."""
WAY_OUT = "write one object per row: with pandas, df.to_json(path, orient='records', lines=True)"


def read(file: DataFile, wanted: Sequence[str] | None) -> Rows:
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
