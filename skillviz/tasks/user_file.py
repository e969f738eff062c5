"""A user's own task: a YAML file next to their data (docs/add-a-task.md)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from skillviz.errors import BadData, BadInput
from skillviz.tasks.project import expanded
from skillviz.tasks.reading import ALLOWED, ending
from skillviz.tasks.refusals import refused
from skillviz.tasks.task import READOUTS, SPLITS, Files, Task
from skillviz.tasks.template import MASKS
from skillviz.tasks.yaml_files import TextLoader, read_yaml

KEYS = (
    "name",
    "title",
    "data",
    "text",
    "label",
    "labels",
    "options",
    "answer",
    "reference",
    "max_new_tokens",
    "stop",
    "ignore_case",
    "ignore_punctuation",
    "classes",
    "drop",
    "template",
    "label_words",
    "metric",
    "positive",
    "max_length",
    "max_length_causal",
    "lmbff_exact",
    "length_normalised",
    "out_of_scope",
    "source",
)
REQUIRED = ("name", "data", "text", "labels")
SEE = "see docs/add-a-task.md"


class _Loader(TextLoader):
    """A loader whose errors may name a task's own keys, but no other text of the file."""

    named = KEYS


def read_task(path: Path) -> Task:
    """The task of a YAML file; raises BadInput if the file cannot be read as one. Data files are not opened."""
    values = _mapping(path)
    where = f"the task file {path.name}"
    if not any(key in values for key in REQUIRED):  # no task at all: its keys are not shown
        raise BadInput(f"{where} describes no task: it has none of {', '.join(REQUIRED)} ({SEE}).")
    unknown = [str(key) for key in values if key not in KEYS]
    if unknown:
        raise BadInput(f"{where} has an unknown key '{unknown[0]}'; known: {', '.join(KEYS)} ({SEE}).")
    needs_labels = not (values.get("options") or values.get("reference"))
    needed = [key for key in REQUIRED if needs_labels or key != "labels"]
    missing = [key for key in needed if not values.get(key)]
    if missing:
        raise BadInput(f"{where} has no '{missing[0]}'; needed are {', '.join(needed)} ({SEE}).")
    values = {key: value for key, value in values.items() if value is not None}
    values["data"] = _files(values["data"], where)
    for key in ("text", "labels", "options", "drop"):
        if key in values:
            values[key] = _names(values[key], key, where)
    values["template"] = _template(values.get("template"), where)
    values["label_words"] = _label_words(values.get("label_words"), values.get("labels", ()), where)
    values.setdefault("source", f"the user's file {path.name}")
    try:
        return Task(**values, path=path.resolve())
    except ValidationError as error:
        field, reason = refused(error)
        raise BadInput(f"{where}: '{field}' cannot be used: {reason} ({SEE}).") from None


def data_files(task: Task) -> dict[str, Path]:
    """Split -> existing file, for a task with files; raises BadInput or BadData if one is missing.

    Further files of a split are at `train.2`, `train.3` and so on.
    """
    return {
        split if number == 1 else f"{split}.{number}": path
        for split, paths in split_files(task).items()
        for number, path in enumerate(paths, start=1)
    }


def split_files(task: Task) -> dict[str, list[Path]]:
    """Split -> existing files, in the order in which they are read; raises the errors of `data_files`."""
    return {
        split: [
            _existing(task, name, f"data.{split}" if number == 1 else f"data.{split}.{number}")
            for number, name in enumerate(names, start=1)
        ]
        for split, names in _written(task).items()
    }


def out_of_scope_file(task: Task) -> Path | None:
    """The existing file of texts that fit no class, None if the task names none; raises the errors of `data_files`."""
    return _existing(task, task.out_of_scope, "out_of_scope") if task.out_of_scope else None


def _existing(task: Task, written: str, key: str) -> Path:
    """The file that a task names under this key; raises BadInput or BadData if it is missing or cannot be read."""
    path = _folder(task) / expanded(written, f"{key} of task '{task.name}'")
    has_variable = "$" in written  # its value must not be shown to everyone who can name the file on a page
    if ending(path.name) is None:
        name = written if has_variable else path.name
        raise BadData(f"task '{task.name}': {key} is {name}; allowed: {ALLOWED}.")
    if not path.is_file():
        shown = written if has_variable else path
        raise BadData(f"task '{task.name}': there is no file {shown} ({key}); correct the path in the task file.")
    return path


def _written(task: Task) -> dict[str, tuple[str, ...]]:
    """Split -> files as written in the task file."""
    assert isinstance(task.data, Files)
    given = {split: written for split in SPLITS if (written := getattr(task.data, split)) is not None}
    return {split: (written,) if isinstance(written, str) else written for split, written in given.items()}


def _paths(task: Task) -> list[Path]:
    """The data files, whether or not they exist."""
    return [_folder(task) / expanded(name) for names in _written(task).values() for name in names]


def _folder(task: Task) -> Path:
    return task.path.parent if task.path else Path.cwd()


def _mapping(path: Path) -> dict[Any, Any]:
    values = read_yaml(path, f"the task file {path}", _Loader)
    if not isinstance(values, dict):
        raise BadInput(f"the task file {path} must be a mapping with the keys {', '.join(REQUIRED)} ({SEE}).")
    return values


def _files(value: Any, where: str) -> dict[str, str | tuple[str, ...]]:
    if not isinstance(value, Mapping):
        raise BadInput(f"{where}: 'data' must name the files test, train and, if there is one, validation ({SEE}).")
    unknown = [str(key) for key in value if key not in SPLITS]
    if unknown:
        raise BadInput(f"{where}: 'data' has an unknown split '{unknown[0]}'; known: {', '.join(SPLITS)}.")
    if not value.get("test"):
        raise BadInput(f"{where}: 'data' has no 'test', which every task needs ({SEE}).")
    if value.get("validation") and not value.get("train"):
        raise BadInput(f"{where}: 'data' has a 'validation' file and no 'train'; name both, or neither ({SEE}).")
    files: dict[str, Any] = {split: name for split, name in value.items() if name}
    for split, names in files.items():
        if isinstance(names, list):
            files[split] = tuple(dict.fromkeys(_names(names, f"data.{split}", where)))
        elif not isinstance(names, str):
            raise BadInput(f"{where}: 'data.{split}' must be the path of a file, or a list of them.")
    return files


def _names(value: Any, key: str, where: str) -> tuple[str, ...]:
    """A name or a list of names as a tuple of texts."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadInput(f"{where}: '{key}' must be a list of names, such as [negative, positive].")
    return tuple(names)


def _by_readout(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and set(value) <= set(READOUTS)


def _template(value: Any, where: str) -> dict[str, str]:
    """{masked, causal}; one string is the masked template if it has a mask, otherwise the causal one."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {"masked" if any(mask in value for mask in MASKS) else "causal": value}
    if not _by_readout(value) or not all(isinstance(text, str) for text in value.values()):
        raise BadInput(f"{where}: 'template' must be a text, or a mapping of masked and causal to texts ({SEE}).")
    return dict(value)


def _label_words(value: Any, labels: tuple[str, ...], where: str) -> dict[str, tuple[str, ...]]:
    """{masked, causal}; words given once are used for both readouts."""
    if value is None:
        return {}
    # labels may themselves be called "masked" and "causal"; then their words cannot be a nested mapping
    if _by_readout(value) and not all(isinstance(words, str) for words in value.values()):
        return {kind: _words(words, labels, where) for kind, words in value.items()}
    return dict.fromkeys(READOUTS, _words(value, labels, where))


def _words(value: Any, labels: tuple[str, ...], where: str) -> tuple[str, ...]:
    if not isinstance(value, Mapping):
        return _names(value, "label_words", where)
    if set(value) != set(labels) or not all(isinstance(word, str) for word in value.values()):
        odd = next(iter((set(labels) - set(value)) or (set(value) - set(labels))), "")
        raise BadInput(f"{where}: 'label_words' must give one word for each label; '{odd}' does not match.")
    return tuple(value[label] for label in labels)


def has_data(task: Task) -> bool:
    """True if the files of a task's data exist; also for data on a hub, which would have to be queried."""
    return not isinstance(task.data, Files) or all(path.is_file() for path in _paths(task))


def task_stamp(task: Task) -> list[list[Any]]:
    """Name, size and time of every file that defines the task or its data; only the name of a missing file or of
    data on a hub."""
    if not isinstance(task.data, Files):
        return [[task.name]]
    paths = [*([task.path] if task.path else []), *_paths(task)]
    return [file_stamp(path) if path.is_file() else [str(path)] for path in paths]


def file_stamp(path: Path) -> list[Any]:
    """Name, size and time of one file."""
    status = path.stat()
    return [str(path), status.st_size, status.st_mtime_ns]
