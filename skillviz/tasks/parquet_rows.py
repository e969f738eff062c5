"""Parquet: the columns of texts, numbers, dates, and lists of them, decoded one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow import parquet, types

from skillviz import json_text
from skillviz.errors import BadData
from skillviz.tasks.rows import ClassNames, Columns, DataFile, Rows, is_of_lists

TEXTS = (types.is_string, types.is_large_string, types.is_string_view)
PLAIN = (
    *TEXTS, types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_date, types.is_timestamp,
    types.is_time, types.is_duration, types.is_null,
)  # fmt: skip
BYTES = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)


def read(file: DataFile, wanted: Sequence[str] | None) -> Rows:
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
