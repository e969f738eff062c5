"""CSV and TSV: find the separator of cells, and whether double quotes quote cells or are characters of the texts.

Spreadsheets and pandas put a cell in double quotes if it holds a separator, a line break or a quote, and double the
quotes within it. Files such as GLUE's quote nothing: their quotes are characters of the text. A file is read in the way
that makes it consistent, with as many cells in each row as there are columns. If both ways are consistent, they may
differ: then the disputed lines' cells in other columns decide, and a file that stays ambiguous is refused.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from skillviz.core.formats import counted
from skillviz.errors import BadData
from skillviz.tasks.rows import CHUNK, Columns, DataFile, Rows

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""The separators of CSV and TSV files, with their names for messages."""
DECLARED = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
"""The line in which Excel names the separator of a file."""
MOST_CLASSES = 50  # most distinct values of a column whose values show what belongs in it
WAY_OUT = "save it as JSONL or Parquet, which need no quotes"


@dataclass(frozen=True)
class Layout:
    """The separator of a file's cells, the lines before its header, and the meaning of quotes."""

    separator: str
    skipped: int = 0
    is_spaced: bool = False
    """True if a space follows each separator."""
    has_quoting: bool = False

    @property
    def separated_by(self) -> str:
        """The name of the separator for messages."""
        return SEPARATORS.get(self.separator, f"'{self.separator}'")


def read(file: DataFile, usual: str, wanted: Sequence[str] | None) -> Rows:
    """The columns of a file of text cells, separated by `usual` unless its header shows another separator."""
    csv.field_size_limit(2**31 - 1)  # the module's default, 131,072 characters, is too little for a long document
    layout, notes = _layout(file, usual)
    rows = _rows(file, layout)
    names = _names(next(rows, []), file)
    columns = Columns(file, wanted)
    places = {name: place for place, name in enumerate(names) if columns.reads(name)}
    numbered = enumerate(rows, start=1)
    while chunk := list(itertools.islice(numbered, CHUNK)):
        for number, row in chunk:
            if len(row) != len(names):
                raise _wrong_count(file, layout, len(row), number, len(names))
        cells = list(zip(*(row for _, row in chunk), strict=True))
        columns.add({name: pa.array(cells[place], pa.string()) for name, place in places.items()}, len(chunk))
    return columns.rows(names, notes, layout.separated_by)


def _rows(file: DataFile, layout: Layout) -> Iterator[list[str]]:
    """The rows that are not blank, the header first. Raises csv.Error if a quoted cell is not closed."""
    for row, _ in _rows_and_lines(file, layout):
        yield row


def _rows_and_lines(file: DataFile, layout: Layout) -> Iterator[tuple[list[str], int]]:
    """Each row that is not blank, with the number of its last line, counted from 1 after the skipped lines."""
    with file.text() as lines:
        for _ in range(layout.skipped):
            lines.readline()
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if layout.has_quoting else csv.QUOTE_NONE
        reader = csv.reader(
            lines, delimiter=layout.separator, skipinitialspace=layout.is_spaced, quoting=quoting, strict=True
        )
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):
                yield row, reader.line_num


def _names(header: Sequence[str], file: DataFile) -> list[str]:
    """The names of the columns; an empty name becomes `Unnamed: N`, as in pandas, which writes its index without a
    name. Raises BadData."""
    names = [name.strip() or f"Unnamed: {place}" for place, name in enumerate(header)]
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if not names or twice is not None:
        why = f", and '{twice}' is there twice" if twice is not None else ""
        raise BadData(f"{file.shown}: the first line must name the columns, each once{why}.")
    return names


def _layout(file: DataFile, usual: str) -> tuple[Layout, list[str]]:
    """The file's layout, and a note if its quotes are characters. Raises BadData if the layout cannot be decided."""
    with file.text() as lines:
        skipped, first = 0, lines.readline()
        while first and not first.strip():
            skipped, first = skipped + 1, lines.readline()
        if declared := DECLARED.fullmatch(first):
            skipped, first = skipped + 1, lines.readline()
        separator = declared[1] if declared else _separator_of(first, usual)
        cells = first.split(separator)
        is_spaced = len(cells) > 1 and separator != " " and all(cell.startswith(" ") for cell in cells[1:])
        opening = re.compile(rf'(?:^|{re.escape(separator)}){" *" if is_spaced else ""}"')
        has_opening = bool(opening.search(first)) or any(opening.search(line) for line in lines)
    plain = Layout(separator, skipped, is_spaced)
    if not has_opening:  # no cell begins with a quote, so no cell is quoted
        return plain, []
    quoted = Layout(separator, skipped, is_spaced, has_quoting=True)
    as_quoting, as_letters = _look(file, quoted), _look(file, plain)
    may_be_letters = as_letters.fault is None and not as_letters.has_quoted_names
    if may_be_letters and (as_quoting.fault is not None or _are_letters(file, quoted, plain)):
        if separator != "\t" and as_letters.escaped:
            raise BadData(
                f'{file.shown} has quotes with a backslash before them, in row {as_letters.escaped}; write "" for a '
                f"quote within a quoted text, or {WAY_OUT}."
            )
        return plain, ["double quotes are letters of the texts, as they do not quote cells consistently"]
    if as_quoting.fault is None:
        return quoted, []
    if as_quoting.cells:
        raise _wrong_count(file, quoted, as_quoting.cells, as_quoting.fault, as_quoting.columns)
    if_letters = (
        f", and {counted(as_letters.cells, 'cell')} in row {as_letters.fault} if they are letters, for "
        f"{as_letters.columns} columns separated by {plain.separated_by}"
    )
    raise BadData(
        f"{file.shown} has double quotes that do not close as those of CSV do, in row {as_quoting.fault}"
        f'{if_letters if as_letters.fault else ""}. Write "" for a quote within a quoted text, or {WAY_OUT}.'
    )


def _separator_of(first: str, usual: str) -> str:
    """The separator that splits this first line into the most columns; `usual` if tied."""
    try:
        columns = {sign: len(next(csv.reader([first], delimiter=sign), [])) for sign in SEPARATORS}
    except csv.Error:
        columns = {sign: first.count(sign) for sign in SEPARATORS}
    return max(columns, key=lambda sign: (columns[sign], sign == usual))


def _wrong_count(file: DataFile, layout: Layout, cells: int, row: int, columns: int) -> BadData:
    return BadData(
        f"{file.shown} has {counted(cells, 'cell')} in row {row} and {counted(columns, 'column')}, separated by "
        f"{layout.separated_by}; put texts that contain the separator in double quotes."
    )


@dataclass(frozen=True)
class _Look:
    """The result of reading a file with one layout: the first wrong row and its number of cells, 0 if its quotes are
    wrong.

    `escaped` is the first row with a quote after a backslash. `has_quoted_names`: the header has names in quotes.
    """

    columns: int
    fault: int | None = None
    cells: int = 0
    escaped: int = 0
    has_quoted_names: bool = False


def _look(file: DataFile, layout: Layout) -> _Look:
    look, number = _Look(0), 0
    try:
        for number, row in enumerate(_rows(file, layout)):
            if number == 0:
                look = _Look(len(row), has_quoted_names=any(cell.startswith('"') for cell in row))
            if len(row) != look.columns:
                return replace(look, fault=number, cells=len(row))
            if not look.escaped and any('\\"' in cell for cell in row):
                look = replace(look, escaped=number)
    except csv.Error:
        return replace(look, fault=number + 1)
    return look


@dataclass
class _Column:
    """A column's cells in lines that both readings agree on, up to a maximum number, and in disputed lines."""

    count: int = 0
    agreed: set[str] = field(default_factory=set)
    is_numeric: bool = True
    disputed: set[str] = field(default_factory=set)

    def agree(self, cell: str) -> None:
        """Adds a cell on which both readings agree."""
        self.count += 1
        self.is_numeric = self.is_numeric and _is_number(cell)
        if len(self.agreed) <= MOST_CLASSES:
            self.agreed.add(cell)

    @property
    def fits(self) -> bool | None:
        """True if the disputed lines fit this column; None if the agreed lines do not decide it."""
        if not self.count or any(cell[:1] == '"' or cell[-1:] == '"' for cell in self.disputed):
            return None
        if self.is_numeric:
            return all(map(_is_number, self.disputed))
        if len(self.agreed) <= MOST_CLASSES and 2 * len(self.agreed) <= self.count:
            return self.disputed <= self.agreed
        return None


def _are_letters(file: DataFile, quoted: Layout, plain: Layout) -> bool:
    """True if the quotes of a file that is consistent in both readings are characters; raises BadData if
    undecidable."""
    letters = _rows_and_lines(file, plain)
    header, _ = next(letters)
    columns, is_disputed = [_Column() for _ in header], False
    quoted_without_need, unquoted = set[int](), set[int]()
    for row, end in itertools.islice(_rows_and_lines(file, quoted), 1, None):
        lines, line = [], 0
        while line < end:
            cells, line = next(letters)
            lines.append(cells)
        if len(lines) > 1:
            is_disputed = True
            if any('"' in cell for cell in row):  # each quote was doubled, as by a program that quotes cells
                return False
            for column, disputed in zip(columns, zip(*lines, strict=True), strict=True):
                column.disputed |= set(disputed)
            continue
        for place, (column, cell) in enumerate(zip(columns, lines[0], strict=True)):
            column.agree(cell)
            if not cell.startswith('"'):
                if '"' in cell:  # a program that quotes cells also quotes cells that hold a quote
                    return True
                if cell:
                    unquoted.add(place)
            elif not set(row[place]) & {'"', *SEPARATORS, quoted.separator}:
                quoted_without_need.add(place)
    if not is_disputed:
        # programs never quote only some cells of a column without need; people do, in files with commas
        return quoted.separator == "\t" and bool(quoted_without_need & unquoted)
    telling = [column.fits for column in columns if column.fits is not None]
    if not telling:
        raise BadData(
            f"{file.shown} has double quotes that join lines if they quote cells and do not if they are letters, and "
            f"both readings are possible; {WAY_OUT}."
        )
    return any(telling)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
