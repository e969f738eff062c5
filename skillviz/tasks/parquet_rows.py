"""Parquet: the columns of texts, numbers, dates and lists of them, decoded one by one."""

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
from skillviz.tasks.rows import MIB, ClassNames, Columns, DataFile, Rows

TEXTS = (types.is_string, types.is_large_string, types.is_string_view)
PLAIN = (
    *TEXTS, types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_date, types.is_timestamp,
    types.is_time, types.is_duration, types.is_null,
)  # fmt: skip
LISTS = (types.is_list, types.is_large_list, types.is_fixed_size_list)
BYTES = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)


def read(file: DataFile, wanted: Sequence[str] | None) -> Rows:
    """The columns of a Parquet file, with the class names that `datasets` stores. Raises BadData, pa.ArrowException."""
    with file.binary() as stored, parquet.ParquetFile(stored) as opened:
        schema, count = opened.schema_arrow, opened.metadata.num_rows
        if len(set(schema.names)) != len(schema.names):
            raise BadData(f"{file.shown} has two columns of one name; give each a name of its own.")
        columns, values = Columns(file, wanted), _values(opened)
        usable = []
        for column in schema:
            if not columns.reads(column.name):
                continue
            if reason := _unusable(column.type):
                columns.leave_out(column.name, reason)
            elif not _is(column.type, LISTS) or columns.has_room_within(column.name, values[column.name]):
                usable.append(column.name)
        file.refuse_size(count, len(usable))
        decoded = {name: _column(stored, schema.field(name), columns) for name in usable}
        read_now = {name: column for name, column in decoded.items() if column is not None}
        columns.add(read_now, count)
        return columns.rows(schema.names, features={c.name: ClassNames() for c in schema} | _class_names(schema))


def _is(kind: pa.DataType, tests: Sequence[Any]) -> bool:
    return any(test(kind) for test in tests)


def _unusable(kind: pa.DataType) -> str:
    """Why no task can use a column of this type; empty where one can."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    elif _is(kind, LISTS):
        if _is(kind.value_type, PLAIN):
            return ""
        return f"holds lists of the type {kind.value_type}"
    if _is(kind, PLAIN):
        return ""
    return "holds bytes" if _is(kind, BYTES) else f"holds values of the type {kind}"


def _values(opened: parquet.ParquetFile) -> Counter[str]:
    """How many values the file says that each column has, those in lists counted one by one."""
    counts = Counter[str]()
    for group in range(opened.metadata.num_row_groups):
        for place in range(opened.metadata.num_columns):
            column = opened.metadata.row_group(group).column(place)
            counts[column.path_in_schema.partition(".")[0]] += column.num_values
    return counts


def _column(stored: Any, field: pa.Field, columns: Columns) -> pa.ChunkedArray | None:
    """A column once each row has its own value; None where it is left out because it would become too large.

    Texts that repeat are stored once, and are counted before each row gets a copy.
    """
    stored.seek(0)
    name, once = field.name, [field.name] if _is(field.type, TEXTS) else None
    with parquet.ParquetFile(stored, read_dictionary=once) as opened:
        column = opened.read(columns=[name], use_threads=False)[name]
    limits = columns.file.limits
    if types.is_dictionary(column.type):
        size = sum(_size(chunk) for chunk in column.chunks)
        if limits is not None and size > limits.size:
            columns.leave_out(name, f"holds more than {limits.size // MIB} MiB once it is decompressed")
            return None
        column = column.cast(column.type.value_type)
    if _is(column.type, LISTS) and not columns.has_room_within(name, len(column.combine_chunks().flatten())):
        return None
    if _is(column.type, TEXTS):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            columns.leave_out(name, "is not UTF-8 text")
            return None
    return column


def _size(chunk: pa.DictionaryArray) -> int:
    """Bytes of a column's texts, or its values, once each row holds its own."""
    if not _is(chunk.type.value_type, TEXTS):
        return 8 * len(chunk)
    lengths = pc.binary_length(chunk.dictionary.cast(pa.large_string()))
    return int(pc.sum(lengths.take(chunk.indices).cast(pa.int64())).as_py() or 0)


def _class_names(schema: pa.Schema) -> dict[str, ClassNames]:
    """What `datasets` calls the numbers of columns, as it notes in a file that it writes."""
    try:
        stored = json_text.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {
            name: ClassNames(tuple(map(str, feature["names"])))
            for name, feature in stored.items()
            if feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list)
        }
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError):
        return {}
