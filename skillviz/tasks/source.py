"""The rows and labels of one split, as they are in its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.class_names import WHOLE, match, places
from skillviz.core.formats import counted
from skillviz.core.generation import REFERENCE as IS_REFERENCE
from skillviz.errors import BadData
from skillviz.tasks.reading import cells, from_file, from_hub
from skillviz.tasks.rows import stacked
from skillviz.tasks.task import CHOICE, GENERATION, SPLITS, Hub, Task
from skillviz.tasks.user_file import out_of_scope_file, split_files

OPTIONS = "options"
"""The column of a frame that holds each example's own options, a tuple of texts."""

REFERENCE = "reference"
"""The column of a frame that holds the text to be generated."""

OUT_OF_SCOPE = "out_of_scope"
"""The prefix of the ids of texts that fit no class; ids of examples begin with their split instead."""

Options = list[tuple[str, ...]]


@dataclass(frozen=True)
class Source:
    """One split, not yet sampled: `rows` are row numbers in the source, `labels` [len(rows)] their labels.

    Rows whose label the task drops are excluded; `dropped` is their number. `options` has the options of every row of
    the source, or is None if the task has none. `references` has the text to be generated for every row. `notes` say
    how its file and the names of its classes were interpreted.
    """

    split: str
    shown: str
    dataset: Any
    rows: np.ndarray
    labels: np.ndarray
    dropped: int
    options: Options | None = None
    references: list[str] | None = None
    notes: tuple[str, ...] = ()

    def frame(self, task: Task, chosen: np.ndarray) -> pd.DataFrame:
        """A frame of example_id, text_a, (text_b, options, reference,) label for these positions.

        A blank cell and a missing one are both an empty text: one text of a pair may be empty. Raises BadData if an
        example has no text at all; a reference to be generated counts as a text.
        """
        rows = self.rows[chosen]
        part = self.dataset.select(rows)
        columns: dict[str, Any] = {"example_id": [f"{self.split}-{row}" for row in rows]}
        for name, column in zip(("text_a", "text_b"), task.text, strict=False):
            values = cells(part, column, self.shown)
            self._refuse_without_text(rows[[isinstance(value, list | dict) for value in values]], column)
            columns[name] = ["" if value is None or value != value else str(value) for value in values]
        if self.references is None:
            texts = zip(*(columns[name] for name in ("text_a", "text_b") if name in columns), strict=True)
            blank = [not any(text.strip() for text in of_row) for of_row in texts]
            self._refuse_without_text(rows[blank], "', '".join(task.text))
        if self.options is not None:
            columns[OPTIONS] = [self.options[row] for row in rows]
        if self.references is not None:
            columns[REFERENCE] = [self.references[row] for row in rows]
        return pd.DataFrame(columns | {"label": self.labels[chosen]})

    def _refuse_without_text(self, rows: np.ndarray, column: str) -> None:
        """Raises BadData for these rows, if any, which have no text."""
        if len(rows):
            others = f" and {counted(len(rows) - 1, 'other row')}" if len(rows) > 1 else ""
            raise BadData(
                f"{self.shown} has no text in the column '{column}' of row {rows[0] + 1}{others}; write one, or remove "
                "the rows without text."
            )


def opened(task: Task, splits: tuple[str, ...], *, every_column: bool = False) -> dict[str, Source]:
    """Split -> source, for each of `splits` that the task has; files give only the task's columns unless
    `every_column`."""
    return {split: _source(task, split, every_column) for split in splits if getattr(task.data, split) is not None}


def other_columns(task: Task, ids: Sequence[str]) -> pd.DataFrame:
    """The other columns of the task's source, besides text and label, indexed by example id.

    Columns of lists or objects are left out. Raises BadData if an id is not a row of the source.
    """
    rows_of = pd.DataFrame([one.rpartition("-")[::2] for one in ids], index=pd.Index(ids), columns=["split", "row"])
    parts = []
    named = tuple(split for split in SPLITS if (rows_of["split"] == split).any())
    sources = opened(task, named, every_column=True)
    for split, of_split in rows_of.groupby("split", sort=False):
        source, rows = sources.get(str(split)), pd.to_numeric(of_split["row"], errors="coerce")
        if source is None or rows.isna().any() or rows.max() >= len(source.dataset):
            raise BadData(f"the task '{task.name}' has no example '{of_split.index[0]}'; its data files have changed.")
        part = source.dataset.select(rows.astype(int).tolist())
        names = [name for name in part.column_names if name not in (*task.columns, *getattr(part, "left_out", ()))]
        values = {name: cells(part, name, source.shown) for name in names}
        plain = {k: v for k, v in values.items() if not any(isinstance(one, list | dict) for one in v)}
        parts.append(pd.DataFrame(plain, index=of_split.index))
    return pd.concat(parts).reindex(rows_of.index) if parts else pd.DataFrame(index=rows_of.index)


def _source(task: Task, split: str, every_column: bool) -> Source:
    if isinstance(task.data, Hub):
        name = getattr(task.data, split)
        dataset, shown = from_hub(task.data, name, task), f"{task.data.title}, split {name},"
    else:
        paths = split_files(task)[split]
        shown, columns = " + ".join(path.name for path in paths), None if every_column else task.columns
        dataset = stacked([from_file(path, columns) for path in paths])
    reading = tuple(f"{split}: {note}." for note in getattr(dataset, "notes", ()))
    if len(dataset) == 0:
        raise BadData(f"{shown} has no rows; task '{task.name}' needs at least one in its {split} split.")
    _refuse_without_columns(dataset, task.columns, task, shown)
    if task.kind == GENERATION:
        references, every = reference_texts(dataset, task, shown), np.arange(len(dataset))
        labels = np.full(len(every), IS_REFERENCE)
        return Source(split, shown, dataset, every, labels, 0, references=references, notes=reading)
    options = option_texts(dataset, task, shown) if task.kind == CHOICE else None
    labels, notes = _right_options(dataset, task, options, shown) if options else _labels(dataset, task, shown)
    rows = np.flatnonzero(labels >= 0)
    if len(rows) == 0:
        raise BadData(f"{shown} has no rows left: all have a label that task '{task.name}' drops.")
    dropped = len(labels) - len(rows)
    return Source(split, shown, dataset, rows, labels[rows], dropped, options, notes=(*reading, *notes))


def _refuse_without_columns(dataset: Any, columns: Sequence[str], task: Task, shown: str) -> None:
    for column in columns:
        if column not in dataset.column_names:
            known = ", ".join(dataset.column_names)
            raise BadData(f"{shown} has no column '{column}', which task '{task.name}' names; its columns: {known}.")


def out_of_scope(task: Task) -> pd.DataFrame | None:
    """The texts that fit no class of the task, in the form of `Source.frame`; None if the task names no such file.

    Their label is 0 and has no meaning: encoding needs one. Raises BadData or BadInput.
    """
    path = out_of_scope_file(task)
    if path is None:
        return None
    dataset = from_file(path, task.text)
    _refuse_without_columns(dataset, task.text, task, path.name)
    every = np.arange(len(dataset))
    return Source(OUT_OF_SCOPE, path.name, dataset, every, np.zeros_like(every), 0).frame(task, every)


def reference_texts(dataset: Any, task: Task, shown: str) -> list[str]:
    """The text to be generated for each row, without surrounding spaces; raises BadData if a row has none."""
    texts = []
    for row, cell in enumerate(cells(dataset, str(task.reference), shown), start=1):
        text = "" if cell is None or cell != cell or isinstance(cell, list | dict) else str(cell).strip()
        if not text:
            raise BadData(f"{shown} has no text in the column '{task.reference}' of row {row}.")
        if task.stop == "newline" and "\n" in text:
            raise BadData(
                f"{shown} has a line break inside the reference of row {row} (column '{task.reference}'), and task "
                f"'{task.name}' ends a text there; write 'stop: end_of_text' in its file."
            )
        texts.append(text)
    return texts


def option_texts(dataset: Any, task: Task, shown: str) -> Options:
    """The options of each row without surrounding spaces; raises BadData if a row's options cannot be scored.

    A row may have fewer options than the task has labels: then its last cells, or the end of its list, are missing.
    """
    columns = [cells(dataset, column, shown) for column in task.options]
    rows = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    return [_options_of(row, f"row {number}", task, shown) for number, row in enumerate(rows, start=1)]


def _options_of(row: Any, place: str, task: Task, shown: str) -> tuple[str, ...]:
    if not isinstance(row, list | tuple):
        raise BadData(
            f"{shown} has no list in the column '{task.options[0]}' of {place}; put lists of texts there, in JSONL or "
            "Parquet, or give each option a column of its own and name them all."
        )
    texts = ["" if cell is None or cell != cell else str(cell).strip() for cell in row]
    options = tuple(text for text in texts if text)
    if "" in texts[: len(options)]:
        raise BadData(f"{shown} has an empty option before others in {place}; move the empty ones to the end.")
    if not 2 <= len(options) <= len(task.labels):
        raise BadData(
            f"{shown} has {counted(len(options), 'option')} in {place}; task '{task.name}' takes 2 to "
            f"{len(task.labels)}, as many as it has labels."
        )
    return options


def _right_options(dataset: Any, task: Task, options: Options, shown: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """The index of each row's right option, -1 if the task drops the row; raises BadData if there is no such option."""
    if task.answer is None:
        labels, notes = _labels(dataset, task, shown)
        for wrong in np.flatnonzero(labels >= [len(of_row) for of_row in options]):
            raise BadData(
                f"{shown} says that option {task.labels[labels[wrong]]} is right in row {wrong + 1}, which has only "
                f"{len(options[wrong])}; correct the column '{task.label}'."
            )
        return labels, notes
    chosen = []
    for row, answer in enumerate(cells(dataset, task.answer, shown)):
        text = "" if answer is None else str(answer).strip()
        if text not in options[row]:
            raise BadData(
                f"{shown} has the answer '{text}' in row {row + 1} (column '{task.answer}'), which is none of its "
                f"options: {', '.join(repr(option) for option in options[row])}."
            )
        chosen.append(options[row].index(text))
    return np.array(chosen, dtype=np.int64), ()


def _labels(dataset: Any, task: Task, shown: str) -> tuple[np.ndarray, tuple[str, ...]]:
    values, notes = label_texts(dataset, task, shown)
    return label_numbers(values, task, shown), notes


def label_texts(dataset: Any, task: Task, shown: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """The label column as texts, with class names if the source declares them; and notes on how those match the
    task's labels if the names are not identical."""
    declared: list[str] = getattr(dataset.features[task.label], "names", None) or []
    names, notes = _class_names(declared, task) if declared else ([], ())

    def text(value: Any) -> str:
        if value is None or value != value:
            return ""
        return names[value] if names and value >= 0 else str(value)

    return np.array([text(value) for value in cells(dataset, task.label, shown)], dtype=object), notes


def _class_names(declared: Sequence[str], task: Task) -> tuple[list[str], tuple[str, ...]]:
    """The task's names for the source's classes, with a note if the two differ; no names if the task's labels are
    the source's numbers."""
    known = [*task.drop, *(task.classes or task.labels)]
    is_known = any(place is not None for place in places(declared, known))
    if task.classes:
        has_numbers = any(place is not None for place in places([str(i) for i in range(len(declared))], known))
        return [] if has_numbers and not is_known else list(declared), ()
    matching, said = match(declared, task.labels), f"The data name their classes {', '.join(declared)}"
    if matching.order is not None:
        labels = {at: task.labels[label] for label, at in enumerate(matching.order)}
        taken = ", ".join(f"'{name}' as '{label}'" for name, label in matching.taken)
        note = f"{said}, the task {', '.join(task.labels)}; they are matched by name, {taken}."
        return [labels.get(at, name) for at, name in enumerate(declared)], (note,) if taken else ()
    if is_known:  # a row whose class the task does not have is refused later, by its name
        return list(declared), ()
    return [], (
        f"{said}, the task {', '.join(task.labels)}; no name is in both, so they are matched by their order. If that "
        "is wrong, say in the task's file what each one is: classes: {name in the data: label}.",
    )


def label_numbers(values: np.ndarray, task: Task, shown: str) -> np.ndarray:
    """The label of each row, int64, -1 if the task drops it; raises BadData at any other value.

    Values are names or indices of `task.labels`, or keys of `task.classes` if the task has them.
    """
    distinct, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    labels = np.empty(len(distinct), dtype=np.int64)
    for i in np.argsort(first):
        value = str(distinct[i])
        number = _number(value, task)
        if number is None:
            allowed = ", ".join(f"'{name}'" for name in task.classes or task.labels)
            indices = "" if task.classes or _numeric(task) else f", or the indices 0 to {len(task.labels) - 1}"
            what = "no label" if not value.strip() else f"the label '{value}'"
            raise BadData(
                f"{shown} has {what} in row {first[i] + 1} (column '{task.label}'); "
                f"task '{task.name}' allows {allowed}{indices}."
            )
        labels[i] = number
    return labels[inverse]


def _number(value: str, task: Task) -> int | None:
    """The label of a cell, by name (ignoring case and surrounding spaces) or index, -1 if the task drops it; None if
    the cell is not a label."""
    value = value.strip()
    known = [*task.drop, *(task.classes or task.labels)]
    (place,) = places([value], known)
    if place is not None:
        name = known[place]
        return -1 if place < len(task.drop) else task.labels.index(task.classes.get(name, name))
    if task.classes or _numeric(task):  # if names are numbers ("1" to "5"), a number is never an index
        return None
    if value.lower() in ("true", "false"):
        return int(value.lower() == "true")
    whole, truths = WHOLE.sub(r"\1", value), places(["false", "true"], task.labels)
    if None not in truths and whole in ("0", "1"):  # labels [true, false] are not in the order of 0 and 1
        return truths[int(whole)]
    return int(whole) if whole.isdecimal() and int(whole) < len(task.labels) else None


def _numeric(task: Task) -> bool:
    return any(WHOLE.sub(r"\1", label.strip()).lstrip("-").isdecimal() for label in task.labels)
