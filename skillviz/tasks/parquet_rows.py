"""Parquet: the columns of texts, numbers, dates, and lists of them, decoded one by one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet, types

from skillviz import json_text
from skillviz.errors import BadData
from skillviz.tasks.rows import MIB, ClassNames, Columns, DataFile, Rows, is_of_lists

TEXTS = (types.is_string, types.is_large_string, types.is_string_view)
PLAIN = (
    *TEXTS, types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_date, types.is_timestamp,
    types.is_time, types.is_duration, types.is_null,
)  # fmt: skip
BYTES = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)


def read(file: DataFile, wanted: Sequence[str] | None) -> Rows:
    """The columns of a Parquet file, with the class names that `datasets` stores. Raises BadData, pa.ArrowException."""
    columns = Columns(file, wanted)
    with file.binary() as stored:
        with parquet.ParquetFile(stored) as opened:
            schema, count, values = opened.schema_arrow, opened.metadata.num_rows, _values(opened)
        if len(set(schema.names)) != len(schema.names):
            raise BadData(f"{file.shown} has two columns of one name; give each a name of its own.")
        usable = [field.name for field in schema if columns.reads(field.name) and _is_usable(field, values, columns)]
        file.refuse_size(count, len(usable))
        stored.seek(0)
        # repeated texts are stored once, and their size is checked before each row gets a copy
        once = [name for name in usable if _is(schema.field(name).type, TEXTS)]
        with parquet.ParquetFile(stored, read_dictionary=once) as opened:
            table = opened.read(columns=usable, use_threads=False).select(usable)
    decoded = {name: _decoded(name, table[name], columns) for name in usable}
    columns.add({name: column for name, column in decoded.items() if column is not None}, count)
    return columns.rows(schema.names, features={field.name: ClassNames() for field in schema} | _class_names(schema))


def _is(kind: pa.DataType, tests: Sequence[Any]) -> bool:
    return any(test(kind) for test in tests)


def _is_usable(field: pa.Field, values: Counter[str], columns: Columns) -> bool:
    """True if a task can use a column, by its type and by the number of values in its lists that the file states."""
    if reason := _unusable(field.type):
        columns.leave_out(field.name, reason)
        return False
    limits = columns.file.limits
    is_large = limits is not None and is_of_lists(field.type) and values[field.name] > limits.within
    return not is_large or columns.has_room_within(field.name, values[field.name])


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


def _values(opened: parquet.ParquetFile) -> Counter[str]:
    """The number of values that the file states for each column, with values in lists counted one by one."""
    counts = Counter[str]()
    for group in range(opened.metadata.num_row_groups):
        for place in range(opened.metadata.num_columns):
            column = opened.metadata.row_group(group).column(place)
            counts[column.path_in_schema.partition(".")[0]] += column.num_values
    return counts


def _decoded(name: str, column: pa.ChunkedArray, columns: Columns) -> pa.ChunkedArray | None:
    """A column in which each row has its own value; None if it is left out because it is too large or not text."""
    limits = columns.file.limits
    if types.is_dictionary(column.type):
        size = sum(_size(chunk) for chunk in column.chunks)
        if limits is not None and size > limits.size:
            columns.leave_out(name, f"holds more than {limits.size // MIB} MiB once it is decompressed")
            return None
        column = column.cast(column.type.value_type)
    if _is(column.type, TEXTS):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            columns.leave_out(name, "is not UTF-8 text")
            return None
    return column


def _size(chunk: pa.DictionaryArray) -> int:
    """The bytes of a column's texts, or of its values, once each row holds its own."""
    if not _is(chunk.type.value_type, TEXTS):
        return 8 * len(chunk)
    lengths = pc.binary_length(chunk.dictionary.cast(pa.large_string()))
    return int(pc.sum(lengths.take(chunk.indices).cast(pa.int64())).as_py() or 0)


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
