"""The rows of a data file as Arrow columns: the requested columns, and the allowed values of a cell."""

from __future__ import annotations

import codecs
import gzip
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from skillviz.errors import BadData

CHUNK = 10_000  # rows held as Python objects at a time
PACKED = {
    b"PK\x03\x04": "a workbook or a zip file", b"BZh": "a bzip2 file", b"\xfd7zXZ": "an xz file",
    b"\x28\xb5\x2f\xfd": "a zstd file", b"7z\xbc\xaf": "a 7z file", b"Rar!": "a rar file",
}  # fmt: skip
"""The first bytes of archives, workbooks and compressed files."""
GZIP = b"\x1f\x8b"
ENCODINGS = {
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
"""Encodings by the mark at the beginning of a text file; any other file is UTF-8."""
MIB = 2**20
MIXED = "mixes lists with other values"


@dataclass(frozen=True)
class DataFile:
    """A file to read, with its name in errors. `most` is the limit on the bytes that a gzip file is unpacked to."""

    shown: str
    content: Path | bytes = field(repr=False)
    most: int | None = None

    def binary(self) -> BinaryIO:
        """The file's bytes, decompressed if it is a gzip file; raises BadData if it is empty or an archive."""
        stored: BinaryIO = io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content.open("rb")
        start = stored.read(6)
        stored.seek(0)
        if kind := next((kind for mark, kind in PACKED.items() if start.startswith(mark)), None):
            stored.close()
            raise BadData(f"{self.shown} is {kind}; unpack it, or save it as CSV or JSONL.")
        if not start:
            stored.close()
            raise BadData(f"{self.shown} is empty; give a file with rows, or correct its path in the task file.")
        if not start.startswith(GZIP):
            return stored
        stored.close()
        packed = io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content
        unpacked = gzip.open(packed)  # noqa: SIM115  # the caller closes it
        if self.most is None:
            return unpacked  # type: ignore[return-value]
        with unpacked:
            content = unpacked.read(self.most + 1)
        if len(content) > self.most:
            raise BadData(
                f"{self.shown} holds more than {self.most // MIB} MiB once it is decompressed; keep only the columns "
                "of the task, or fewer rows."
            )
        return io.BytesIO(content)

    def text(self) -> TextIO:
        """The file as text, line ends unchanged; raises BadData if it is neither UTF-8 nor marked as UTF-16."""
        stored = self.binary()
        start = stored.read(4096)
        stored.seek(0)
        encoding = next((name for mark, name in ENCODINGS.items() if start.startswith(mark)), "utf-8-sig")
        if encoding == "utf-8-sig" and b"\0" in start:
            stored.close()
            raise BadData(f"{self.shown} is not UTF-8 text (it holds zero bytes); save it as UTF-8.")
        return io.TextIOWrapper(stored, encoding=encoding, newline="")


@dataclass(frozen=True)
class ClassNames:
    """The names that a file itself gives to the numbers of a column; most files give none."""

    names: Sequence[str] = ()


@dataclass(frozen=True)
class Rows:
    """The rows of a file: `column_names` are all of its columns, `table` holds those that were read.

    `left_out` maps each column that no task can use to the reason. `notes` say how the file was interpreted if that is
    not obvious. `separated_by` names the separator of its cells, if there is one.
    """

    table: pa.Table
    column_names: list[str]
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    features: Mapping[str, ClassNames] = field(default_factory=dict)
    separated_by: str = ""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, column: str) -> list[object]:
        return list(self.table[column].to_pylist())

    def select(self, rows: Sequence[int]) -> Rows:
        """These rows only, in this order."""
        return replace(self, table=self.table.take(rows))


def stacked(parts: Sequence[Rows]) -> Rows:
    """The rows of several files, one file after the other, with the columns that all of them have."""
    first, *others = parts
    if not others:
        return first
    names = [name for name in first.column_names if all(name in part.column_names for part in others)]
    read = [name for name in first.table.column_names if all(name in part.table.column_names for part in others)]
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    table = pa.table({name: _joined([part.table[name] for part in parts]) for name in read})
    return replace(first, table=table, column_names=names, notes=notes)


def unusable(column: str, shown: str, reason: str) -> BadData:
    """The error for a column of a file that no task can use."""
    return BadData(f"column '{column}' of {shown} {reason}; save it as text, or leave it out.")


class Columns:
    """Collects the columns of a file: all of them, or those in `wanted`.

    A column that no task can use is left out if all were requested, and refused if it was named.
    """

    def __init__(self, file: DataFile, wanted: Sequence[str] | None) -> None:
        self.file, self.wanted = file, wanted
        self.left_out: dict[str, str] = {}
        self._parts: dict[str, list[pa.Array | pa.ChunkedArray]] = {}
        self._rows = 0

    def reads(self, name: str) -> bool:
        """True if this column is to be read."""
        return name not in self.left_out and (self.wanted is None or name in self.wanted)

    def leave_out(self, name: str, reason: str) -> None:
        """Notes why a column is not read; raises BadData if it was named."""
        self.left_out[name] = reason
        self._parts.pop(name, None)
        if self.wanted is not None:
            raise unusable(name, self.file.shown, reason)

    def add(self, part: Mapping[str, pa.Array | pa.ChunkedArray], rows: int) -> None:
        """Adds the next rows of the columns; a column missing from a part gets no values."""
        for name, column in part.items():
            if self.reads(name):
                self._parts.setdefault(name, [pa.nulls(self._rows)] if self._rows else []).append(column)
        self._rows += rows
        for name, parts in self._parts.items():
            if name not in part:
                parts.append(pa.nulls(rows))

    def add_values(self, part: Mapping[str, Sequence[object]], rows: int) -> None:
        """Adds the next rows of the columns as JSON values."""
        arrays = {}
        for name, values in part.items():
            column = column_of(values)
            if isinstance(column, str):
                self.leave_out(name, column)
            else:
                arrays[name] = column
        self.add(arrays, rows)

    def rows(
        self,
        names: Sequence[str],
        notes: Iterable[str] = (),
        separated_by: str = "",
        features: Mapping[str, ClassNames] | None = None,
    ) -> Rows:
        """The rows of a file with these columns; raises BadData if no column can be used."""
        if not self._rows:
            raise BadData(
                f"{self.file.shown} has no rows; give a file with some, or correct the path in the task file."
            )
        for name in list(self._parts):
            if len({pa.types.is_nested(part.type) for part in self._parts[name] if part.type != pa.null()}) > 1:
                self.leave_out(name, MIXED)
        columns = {name: _joined(parts) for name, parts in self._parts.items()}
        if not columns and self.left_out:
            name, reason = next(iter(self.left_out.items()))
            raise unusable(name, self.file.shown, reason)
        table = pa.table(columns) if columns else pa.table({"": pa.nulls(self._rows)})
        features = features or dict.fromkeys(names, ClassNames())
        return Rows(table, list(names), self.left_out, tuple(notes), features, separated_by)


def is_of_lists(kind: pa.DataType) -> bool:
    """True for a type of lists of any length."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as a task reads it: texts, empty for a missing value; lists become lists of texts.

    Raises ValueError, OverflowError or NotImplementedError at values that cannot be written as text.
    """
    kind = column.type
    if is_of_lists(kind):
        lists = [None if cell is None else [_written(one) for one in cell] for cell in column.to_pylist()]
        return pa.chunked_array([pa.array(lists, pa.list_(pa.string()))])
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
    if is_number or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.fill_null(column.cast(pa.string()), "")
    return pa.chunked_array([pa.array([_written(value) or "" for value in column.to_pylist()], pa.string())])


def _written(value: object) -> str | None:
    return None if value is None or value != value else str(value)


def column_of(values: Sequence[object]) -> pa.Array | str:
    """These JSON values as a column, or the reason why no task can use them. Values of mixed types become texts."""
    kinds = {type(value) for value in values} - {type(None)}
    if dict in kinds:
        return "holds objects"
    if list in kinds:
        return MIXED if len(kinds) > 1 else _lists(values)
    try:
        return pa.array(values) if len(kinds) <= 1 else pa.array(map(_written, values), pa.string())
    except OverflowError:
        return pa.array(map(_written, values), pa.string())
    except UnicodeEncodeError:
        return "holds halves of characters (lone surrogates)"


def _lists(values: Sequence[object]) -> pa.Array | str:
    lists = [value for value in values if isinstance(value, list)]
    if any(isinstance(one, list | dict) for value in lists for one in value):
        return "holds lists of lists or objects"
    texts = [None if value is None else [_written(one) for one in value] for value in values]  # type: ignore[attr-defined]
    try:
        return pa.array(texts, pa.list_(pa.string()))
    except UnicodeEncodeError:
        return "holds halves of characters (lone surrogates)"


def _joined(parts: Sequence[pa.Array | pa.ChunkedArray]) -> pa.ChunkedArray:
    """The parts as one column, of text if their types differ."""
    chunks = [chunk for part in parts for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    kinds = {chunk.type for chunk in chunks} - {pa.null()}
    if len(kinds) <= 1:
        kind = next(iter(kinds), pa.null())
        return pa.chunked_array([chunk.cast(kind) for chunk in chunks], kind)
    return pa.chunked_array([pa.array(map(_written, chunk.to_pylist()), pa.string()) for chunk in chunks])
