"""A task made from uploaded files: read as any other task, with a task file next to them. Nothing is overwritten."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml

from skillviz.atomic import remove_folder, whole_folder
from skillviz.errors import BadData, BadInput, NotReadable, SkillvizError, without_folder
from skillviz.regular_file import folder_names
from skillviz.tasks import upload_reader
from skillviz.tasks.rows import unusable
from skillviz.tasks.splits import Splits, load
from skillviz.tasks.task import CHOICE, CLASSIFICATION, GENERATION, LETTERS, Task
from skillviz.tasks.user_file import read_task

FILE, ENDING = "task.yaml", ".parquet"
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,59}")
MOST_CLASSES = 50
CLASS_NAMES = ("label", "labels", "class", "category", "target", "gold", "y", "sentiment", "topic", "stars", "rating")
ANSWER_NAMES = (
    "reference", "answer", "completion", "response", "output", "target", "gold", "summary", "translation", "solution",
)  # fmt: skip
RIGHT_NAMES = {
    CLASSIFICATION: CLASS_NAMES, CHOICE: (*CLASS_NAMES, *ANSWER_NAMES, "right", "correct"), GENERATION: ANSWER_NAMES,
}  # fmt: skip
"""Common names of the column that holds the right answer."""
OPTION = re.compile(r"(option|choice|candidate|answer|ending|sol)[_ -]?[0-9a-j]", re.IGNORECASE)
"""The pattern of names of columns that hold one of each row's options."""
LOOKED_AT = 100  # rows that a guess looks at
ASIDE = 5  # one row in this many is a test row, if no test file was uploaded


@dataclass(frozen=True)
class Upload:
    """An uploaded file: its own name and its bytes."""

    name: str
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Draft:
    """A task before it is written: `files` by split (train, and perhaps validation and test). `values` holds the
    other keys of its task file (docs/add-a-task.md) except data and source; empty values are left out."""

    name: str
    files: Mapping[str, Upload]
    values: Mapping[str, Any]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that the task uses: texts, options, and the column of the right answer."""
        right = (self.values.get(key) for key in ("reference", "answer", "label"))
        return tuple(dict.fromkeys([*self.values["text"], *self.values.get("options", ()), *filter(None, right)]))


@dataclass(frozen=True)
class Columns:
    """The guessed columns: the texts, the right answer, and the options of each row."""

    text: tuple[str, ...]
    right: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class UploadedRows:
    """The rows of an upload, all cells as texts or lists of texts; the columns that were left out, and the separator
    of its cells (`semicolons`), empty if there is none."""

    frame: pd.DataFrame
    left_out: Mapping[str, str]
    notes: tuple[str, ...]
    separated_by: str


def read(upload: Upload) -> UploadedRows:
    """The rows of an upload, read by a separate process; raises BadData, also if the upload is too large."""
    rows = upload_reader.read(upload.name, upload.content)
    frame = pd.DataFrame({name: _series(rows.table[name]) for name in rows.column_names})
    if rows.separated_by:
        _refuse_without_names(frame, upload.name)
    return UploadedRows(frame, rows.left_out, rows.notes, rows.separated_by)


def rows_of(upload: Upload) -> pd.DataFrame:
    """The rows as the task's code will read them, cells as text. Raises BadData, also if there are too many."""
    return read(upload).frame


def _refuse_without_names(frame: pd.DataFrame, name: str) -> None:
    """Raises BadData if a file's first line is a row: each name that is shared by rows is also a value of its
    column. pandas numbers columns that have no names."""
    names = [str(column) for column in frame if not str(column).startswith("Unnamed: ")]
    shared = [column for column in names if frame[column].nunique() <= min(MOST_CLASSES, len(frame) - 1)]
    is_numbered = names == [str(number) for number in range(len(names))]
    if shared and not is_numbered and all((frame[column] == column).any() for column in shared):
        raise BadData(
            f"{name} has '{shared[0]}' in its first line and in rows below, as if its columns had no names; write a "
            "first line that names them, such as text and label."
        )


def _series(column: pa.ChunkedArray) -> pd.Series:
    """A pandas column; lists stay lists."""
    return pd.Series(column.to_pylist(), dtype=object) if pa.types.is_list(column.type) else column.to_pandas()


def guessed_kind(rows: pd.DataFrame) -> str:
    """The likely kind of task of these rows. A column holds a class by its name, or if rows share its values."""
    if _option_columns(rows):
        return CHOICE
    column = guessed(rows).right
    is_named = column.lower() in set(CLASS_NAMES) - set(ANSWER_NAMES)
    different = rows[column].astype(str).nunique()
    return CLASSIFICATION if is_named or 2 <= different <= min(MOST_CLASSES, len(rows) / 2) else GENERATION


def guessed(rows: pd.DataFrame, kind: str = CLASSIFICATION) -> Columns:
    """The likely columns of a task of this kind in these rows; two texts if two are of similar length."""
    options = _option_columns(rows) if kind == CHOICE else ()
    names = [str(name) for name in rows if name not in options and not _holds_lists(rows[name])]
    few = [name for name in names if 2 <= rows[name].astype(str).nunique() <= MOST_CLASSES]
    named = [name for name in names if name.lower() in RIGHT_NAMES[kind]]
    best = [*[n for n in named if n in few], *few[::-1]] if kind == CLASSIFICATION else []
    right = next(iter([*best, *named, *names[-1:], *map(str, rows)]), "")
    length = {n: float(rows[n].head(LOOKED_AT).astype(str).str.len().mean()) for n in names if n != right}
    ordered = sorted(length, key=lambda name: -length[name])
    texts = [n for n in names if n in ordered[:2] and length[n] > 0.2 * length[ordered[0]] and length[n] > 12]
    return Columns(tuple(texts or ordered[:1]), right, options)


def _option_columns(rows: pd.DataFrame) -> tuple[str, ...]:
    """The first column of lists; otherwise the columns whose names show that each holds an option."""
    lists = [str(name) for name in rows if _holds_lists(rows[name])]
    named = [str(name) for name in rows if OPTION.fullmatch(str(name))]
    return tuple(lists[:1] or (named if len(named) > 1 else ()))


def _holds_lists(column: pd.Series) -> bool:
    return any(isinstance(cell, list) for cell in column.head(LOOKED_AT))


def is_written_out(rows: pd.DataFrame, options: Sequence[str], right: str) -> bool:
    """True if the column `right` seems to repeat an option's text; otherwise it names the option's place."""
    first = rows.head(LOOKED_AT)
    offered = [{str(option) for cell in row for option in (cell if isinstance(cell, list) else [cell])}
               for row in first[list(options)].itertuples(index=False)]  # fmt: skip
    return all(str(cell) in texts for cell, texts in zip(first[right], offered, strict=True))


def room_for(rows: pd.DataFrame, reference: str) -> int:
    """The new tokens needed for the longest reference: one for two bytes of it, which few tokenizers exceed."""
    longest = max((len(str(cell).strip().encode()) for cell in rows[reference]), default=0)
    return max(Task.model_fields["max_new_tokens"].default, -(-longest // 32) * 16)


def longest(splits: Sequence[pd.DataFrame], reference: str) -> list[str]:
    """The LOOKED_AT longest references by characters; these include the ones with the most words or tokens."""
    texts = {str(cell).strip() for rows in splits if reference in rows for cell in rows[reference]}
    return sorted(texts, key=len)[-LOOKED_AT:]


def classes_of(rows: pd.DataFrame, label: str) -> list[str]:
    """The distinct values of the label column as texts, numbers by size; raises BadData if there are too many."""
    values = {"" if value is None or value != value else str(value).strip() for value in rows[label]} - {""}
    if len(values) > MOST_CLASSES:
        raise BadData(
            f"the column '{label}' has {len(values):,} different values; a task has at most {MOST_CLASSES} classes: "
            "choose the column that holds the class."
        )
    return sorted(values, key=lambda value: (0, float(value), value) if _is_number(value) else (1, 0.0, value))


def are_indices(values: Sequence[str]) -> bool:
    """True if these are the numbers 0, 1, ..., for which names can be given."""
    return [str(number) for number in range(len(values))] == list(values)


def save(draft: Draft, root: Path) -> tuple[Path, Splits]:
    """The task file, in its own folder under `root` next to its data, and its examples.

    The checks are the same as for every task: raises BadInput or BadData, and then leaves no files.
    """
    if not NAME.fullmatch(draft.name):
        raise BadInput(f"'{draft.name}' cannot name a task; use letters, digits, '-', '_' and '.', at most 60.")
    folder = root / draft.name
    if folder.exists():
        raise BadInput(
            f"there is a task '{draft.name}' in {root} already, which is never overwritten; choose another name."
        )
    try:
        with whole_folder(folder) as part:
            data, source = _write_data(draft, part)
            text = yaml.safe_dump(_task_file(draft, data, source), sort_keys=False, allow_unicode=True)
            (part / FILE).write_text(text, encoding="utf-8")
            try:
                splits = load(read_task(part / FILE))
            except SkillvizError as error:
                raise type(error)(_in_names_of_uploads(without_folder(str(error.args[0]), part), draft)) from error
    except OSError as error:
        raise BadInput(f"the task cannot be written to {folder}: {error.strerror}.") from error
    return folder / FILE, splits


def _in_names_of_uploads(sentence: str, draft: Draft) -> str:
    """A sentence about the data files, with the names of the uploads."""
    for split, upload in draft.files.items():
        sentence = sentence.replace(f"{split}{ENDING}", upload.name)
    return sentence


def saved(root: Path) -> list[Path]:
    """The task files that were written under `root`, by name."""
    try:
        return [root / name / FILE for name in folder_names(root) if os.path.isfile(root / name / FILE)]
    except NotReadable:
        return []


def delete(file: Path, root: Path) -> None:
    """Removes a task that was saved under `root`, with its data, at once; raises BadInput for any other file."""
    if file not in saved(root):
        raise BadInput(f"{file} is no task that was uploaded to {root}; nothing was deleted.")
    remove_folder(file.parent)


def set_aside(count: int) -> np.ndarray:
    """The rows that are set aside for the test: a fifth, drawn with a fixed seed."""
    return np.sort(np.random.default_rng(0).permutation(count)[: max(1, count // ASIDE)])


def _write_data(draft: Draft, folder: Path) -> tuple[dict[str, str], str]:
    """Writes the rows as they were read, in a common format. Returns file names by split, and their origin in words."""
    read_rows = {split: _usable_rows(upload, draft) for split, upload in draft.files.items()}
    frames = {split: rows.frame for split, rows in read_rows.items()}
    told = {split: ", ".join((draft.files[split].name, *rows.notes)) for split, rows in read_rows.items()}
    sources = "; ".join(f"{split}: {words}" for split, words in told.items())
    source = f"uploaded ({sources})"
    if "test" not in frames:
        rows = frames["train"]
        if len(rows) < 2:
            raise BadData(f"{draft.files['train'].name} has one row, so none can be set aside for the test.")
        aside = np.isin(np.arange(len(rows)), set_aside(len(rows)))
        frames |= {"train": rows[~aside], "test": rows[aside]}
        source = f"uploaded ({sources}; {aside.sum():,} of its {len(rows):,} rows were set aside as the test)"
    for split, frame in frames.items():
        frame.to_parquet(folder / f"{split}{ENDING}", index=False, compression="zstd")
    return {split: f"{split}{ENDING}" for split in frames}, source


def _usable_rows(upload: Upload, draft: Draft) -> UploadedRows:
    """The rows of an upload; raises BadData if a column of the task could not be read."""
    rows = read(upload)
    for name in draft.columns:
        if name in rows.left_out:
            raise unusable(name, upload.name, rows.left_out[name])
    return rows


def _task_file(draft: Draft, data: dict[str, str], source: str) -> dict[str, Any]:
    """The content of the YAML file; for options in lists, places are named up to the longest list."""
    values = {"name": draft.name, "data": data, **draft.values, "source": source}
    if len(options := draft.values.get("options", ())) == 1:
        every = [cell for upload in draft.files.values() for cell in rows_of(upload).get(options[0], ())]
        values["labels"] = list(LETTERS[: max([2, *(len(cell) for cell in every if isinstance(cell, list))])])
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items() if value}


def _is_number(value: str) -> bool:
    try:
        return float(value) == float(value)
    except ValueError:
        return False
