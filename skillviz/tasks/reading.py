"""A file or a split of a hub data set, opened through `datasets`."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from skillviz import json_text, read_only
from skillviz.core.formats import counted
from skillviz.errors import BadData, DataNotFound, DiskFull, is_disk_full
from skillviz.tasks.task import Hub, Task

# How `datasets` and pyarrow word it that a CSV, JSON or Parquet file has no rows.
NO_ROWS = ("corresponds to no data", "BatchSize must be greater than 0")
DEEPEST = 100  # levels of lists and objects in a row
TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?')
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""Of the cells of CSV and TSV files, as a sentence names them."""


def separator_of(first: str, suffix: str) -> str:
    """What parts this first line of a CSV or TSV file into the most columns; of several the one its ending stands for.

    Raises csv.Error.
    """
    usual = "\t" if suffix == ".tsv" else ","
    columns = {sign: len(next(csv.reader([first], delimiter=sign), [])) for sign in SEPARATORS}
    return max(columns, key=lambda sign: (columns[sign], sign == usual))


def from_file(path: Path, cache: str) -> Any:
    """The file as a dataset whose copy lies in `cache`, never beside the user's data."""
    from datasets import Dataset  # heavy: not before it is needed
    from datasets.utils.extract import Extractor

    if path.stat().st_size == 0:
        raise BadData(f"{path} is empty; give a file with rows, or correct its path in the task file.")
    if Extractor.infer_extractor_format(path):  # `datasets` would unpack it, whatever it grows to
        raise BadData(f"{path} is a compressed file; unpack it first.")
    suffix = path.suffix.lower()
    options: dict[str, Any] = {"cache_dir": cache}
    try:
        if suffix in (".json", ".jsonl"):
            _refuse_what_crashes(path)
            return Dataset.from_json(str(path), **options)
        if suffix == ".parquet":
            return Dataset.from_parquet(str(path), **options)
        return Dataset.from_csv(str(path), **options, **_csv_options(path))
    except BadData:
        raise
    except UnicodeDecodeError as error:
        byte = f"{error.object[error.start]:#x}"
        raise BadData(f"{path} is not UTF-8 text (byte {byte}); save it as UTF-8, in Excel as 'CSV UTF-8'.") from error
    except Exception as error:  # pyarrow, pandas and datasets each have errors of their own
        if is_disk_full(error):
            raise DiskFull(f"no space is left in {cache} for a copy of {path}; free some and try again.") from error
        if any(words in _first_cause(error) for words in NO_ROWS):
            raise BadData(
                f"{path} has no rows; give a file with some, or correct the path in the task file."
            ) from error
        why = (_bad_line(path) if suffix == ".jsonl" else None) or _first_cause(error)
        raise BadData(f"{path} cannot be read as {suffix[1:].upper()}: {why}.") from error


def cells(dataset: Any, column: str, shown: str) -> list[Any]:
    """The values of a column; raises BadData where they cannot be read, which shows only on reading them."""
    try:
        values = list(dataset[column][:])
    except UnicodeDecodeError as error:
        raise BadData(f"{shown} is not UTF-8 text (column '{column}'); save it as UTF-8.") from error
    except (ValueError, OverflowError, NotImplementedError) as error:  # pyarrow's are among them
        raise BadData(
            f"column '{column}' of {shown} cannot be read: {_first_cause(error)}; save it as text."
        ) from error
    if any(isinstance(value, bytes) for value in values):
        raise BadData(f"column '{column}' of {shown} holds bytes; save it as text, or leave it out.")
    return values


def _csv_options(path: Path) -> Mapping[str, Any]:
    """Every column as text, so that `007`, `NA` and `None` stay what they are."""
    from datasets import Features, Value  # heavy: not before it is needed

    csv.field_size_limit(2**31 - 1)  # the module's own limit, 131,072 characters, is less than a long document
    with path.open(encoding="utf-8-sig", newline="") as lines:
        separator = separator_of(lines.readline(), path.suffix.lower())
        lines.seek(0)
        rows = csv.reader(lines, delimiter=separator)
        # pandas writes its index under no name, and reads it so
        names = [name or f"Unnamed: {place}" for place, name in enumerate(next(rows, []))]
        if not names or len(set(names)) != len(names):
            raise BadData(f"{path}: the first line must name the columns, each once.")
        # pandas would take a cell too many for an index and shift the others
        for number, row in enumerate((row for row in rows if row), start=1):
            if len(row) != len(names):
                raise BadData(
                    f"{path} has {counted(len(row), 'cell')} in row {number} and {len(names)} columns, separated by "
                    f"{SEPARATORS[separator]}; put texts that contain the separator in double quotes."
                )
    text = Features({name: Value("string") for name in names})
    return {"features": text, "sep": separator, "na_filter": False, "encoding": "utf-8-sig"}


def from_cache(data: Hub, split: str) -> Any | None:
    """A split of a data set that the hub's client has downloaded before; None where it has not. Asks no network."""
    from datasets.packaged_modules.cache.cache import Cache  # heavy: not before it is needed

    if data.revision is not None:  # the cache tells what it is a copy of by the commit alone
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
    """Whether the task's data are on the hub and not in its local cache. Asks no network."""
    return isinstance(task.data, Hub) and from_cache(task.data, task.data.test) is None


def from_hub(data: Hub, split: str, task: Task) -> Any:
    """A split of a data set of the hub's cache, else of the hub; raises DataNotFound where it cannot be had."""
    if (copy := from_cache(data, split)) is not None:
        return copy
    read_only.refuse()
    from datasets import load_dataset  # heavy: not before it is needed

    try:
        return load_dataset(data.id, data.config, split=split, revision=data.revision)
    except Exception as error:  # the hub's, the network's and the loader's errors have no common class
        offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
        why = "HF_HUB_OFFLINE is set and it is not in the local cache" if offline else _first_cause(error)
        raise DataNotFound(
            f"task '{task.name}': {data.title} could not be downloaded from the Hugging Face Hub: {why}; "
            "or put the data in files of your own and write a task file (docs/add-a-task.md)."
        ) from error


def _refuse_what_crashes(path: Path) -> None:
    """Raises BadData for JSON that ends the process in which pyarrow reads it: null, and a row nested too deeply."""
    with path.open("rb") as lines:
        is_first = True
        for number, line in enumerate(lines, start=1):
            if is_first and line.lstrip().startswith(b"null"):
                raise BadData(f"{path} begins with null; write one JSON object per row.")
            is_first = is_first and not line.strip()
            if line.count(b"[") + line.count(b"{") > DEEPEST and depth(line) > DEEPEST:
                raise BadData(
                    f"line {number} of {path} is nested more than {DEEPEST} levels deep; write texts and labels."
                )


def depth(line: bytes) -> int:
    """How deep the lists and objects of a line of JSON are nested; brackets in its texts do not count."""
    brackets = np.frombuffer(TEXTS.sub(b"", line).translate(None, NO_BRACKETS), dtype=np.uint8)
    steps = np.where(np.isin(brackets, list(b"[{")), 1, -1)
    return int(steps.cumsum().max(initial=0))


def _bad_line(path: Path) -> str | None:
    """Which line of a JSONL file is not a JSON object, None where all are."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                if line.strip() and not isinstance(json_text.loads(line), dict):
                    return f"line {number} is not an object in braces"
            except json.JSONDecodeError as error:
                return f"line {number} is not JSON ({error.msg})"
    return None


def _first_cause(error: BaseException) -> str:
    """The first line of the innermost error, without its final stop."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".")


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and log lines of `datasets` meanwhile."""
    import datasets  # heavy: not before it is needed

    shown, level = not datasets.are_progress_bars_disabled(), datasets.logging.get_verbosity()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    try:
        yield
    finally:
        datasets.logging.set_verbosity(level)
        if shown:
            datasets.enable_progress_bars()
