"""The rows of a data file or of a split of a hub data set."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from skillviz.errors import BadData, DataNotFound, first_line, is_out_of_memory
from skillviz.serving import read_only
from skillviz.tasks import delimited, json_rows, parquet_rows
from skillviz.tasks.rows import DataFile, Rows, unusable
from skillviz.tasks.task import Hub, Task

READERS = {
    ".jsonl": json_rows.read,
    ".json": json_rows.read,
    ".csv": lambda file, columns: delimited.read(file, ",", columns),
    ".tsv": lambda file, columns: delimited.read(file, "\t", columns),
    ".parquet": parquet_rows.read,
    ".ndjson": json_rows.read,
    ".txt": lambda file, columns: delimited.read(file, "\t", columns),
}
PACKED = ".gz"
FORMATS = (*READERS, *(f"{ending}{PACKED}" for ending in READERS if ending != ".parquet"))
"""The endings of the names of files that can be read."""
ALLOWED = f"{', '.join(READERS)}; all but Parquet also with {PACKED}"


def ending(name: str) -> str | None:
    """The format of a file of this name, a key of READERS; None if it cannot be read."""
    plain = name.lower().removesuffix(PACKED)
    found = next((suffix for suffix in READERS if plain.endswith(suffix)), None)
    return found if f"{found}{PACKED}" in FORMATS or plain == name.lower() else None


def read(file: DataFile, columns: Sequence[str] | None = None) -> Rows:
    """The rows of a file with these columns, or with all usable ones; raises BadData. MemoryError is not caught."""
    kind = ending(file.shown)
    if kind is None:
        raise BadData(f"{file.shown} cannot be read; allowed: {ALLOWED}.")
    try:
        return READERS[kind](file, columns)
    except (BadData, MemoryError):
        raise
    except UnicodeError as error:
        byte = f" (byte {error.object[error.start]:#x})" if isinstance(error, UnicodeDecodeError) else ""
        raise BadData(f"{file.shown} is not UTF-8 text{byte}; save it as UTF-8, in Excel as 'CSV UTF-8'.") from error
    except (EOFError, OSError, ValueError, zlib.error, pa.ArrowException) as error:
        if is_out_of_memory(error):
            raise MemoryError from error
        raise BadData(f"{file.shown} cannot be read as {kind[1:].upper()}: {_first_cause(error)}.") from error


def from_file(path: Path, columns: Sequence[str] | None = None) -> Rows:
    """The rows of the user's own file; see `read`."""
    return read(DataFile(str(path), path), columns)


def cells(dataset: Any, column: str, shown: str) -> list[Any]:
    """The values of a column; raises BadData if they cannot be read, which is only known after reading."""
    try:
        values = list(dataset[column][:])
    except UnicodeDecodeError as error:
        raise BadData(f"{shown} is not UTF-8 text (column '{column}'); save it as UTF-8.") from error
    except (ValueError, OverflowError, NotImplementedError) as error:  # includes the errors of pyarrow
        raise unusable(column, shown, f"cannot be read ({_first_cause(error)})") from error
    if any(isinstance(value, bytes) for value in values):
        raise unusable(column, shown, "holds bytes")
    return values


def from_cache(data: Hub, split: str) -> Any | None:
    """A split of a data set in the cache of the hub's client; None if it is not there. Does not use the network."""
    from datasets.packaged_modules.cache.cache import Cache  # heavy import

    if data.revision is not None:  # the cache identifies its copy by the commit alone
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
    """True if the task's data are on the hub and not in its local cache. Does not use the network."""
    return isinstance(task.data, Hub) and from_cache(task.data, task.data.test) is None


def from_hub(data: Hub, split: str, task: Task) -> Any:
    """A split of a data set, from the hub's cache or else from the hub; raises DataNotFound if it is in neither."""
    with quiet():
        return _from_hub(data, split, task)


def _from_hub(data: Hub, split: str, task: Task) -> Any:
    if (copy := from_cache(data, split)) is not None:
        return copy
    read_only.refuse()
    from datasets import load_dataset  # heavy import

    try:
        return load_dataset(data.id, data.config, split=split, revision=data.revision)
    except Exception as error:  # the hub's, the network's and the loader's errors have no common class
        offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
        why = "HF_HUB_OFFLINE is set and it is not in the local cache" if offline else _first_cause(error)
        raise DataNotFound(
            f"task '{task.name}': {data.title} could not be downloaded from the Hugging Face Hub: {why}; "
            "or put the data in files of your own and write a task file (docs/add-a-task.md)."
        ) from error


def _first_cause(error: BaseException) -> str:
    """The first line of the innermost error, without its final period."""
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error).rstrip(".")


@contextmanager
def quiet() -> Iterator[None]:
    """Turns off the progress bars and log lines of `datasets` inside the block."""
    import datasets  # heavy import

    shown, level = not datasets.are_progress_bars_disabled(), datasets.logging.get_verbosity()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    try:
        yield
    finally:
        datasets.logging.set_verbosity(level)
        if shown:
            datasets.enable_progress_bars()
