"""The cache on disk: values stored beside the runs, each under the hash of its inputs.

A file has one row per array (dtype, shape, bytes); the rest of the value is JSON in its metadata. When the cache is
full, the least recently used values are removed first.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skillviz import json_text
from skillviz.atomic import write_file
from skillviz.errors import DiskFull, ReadOnly

MOST_BYTES = 256 * 2**20
ARRAY = "__array__"  # marks, in the JSON, the place of an array stored in a row
DTYPES = ("float32", "float64", "int64", "bool")
META = b"skillviz"
FORMAT = 1


class DiskCache:
    """A cache of values in one folder, at most `most_bytes` in total; `group` is a folder within it."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder, self.most_bytes = folder, most_bytes

    def get(self, key: str, group: str = "") -> dict[str, Any] | None:
        """Return the value stored under this key, unchanged; None if there is none or it cannot be read."""
        path = self._path(key, group)
        try:
            value = _joined(pq.read_table(path))
            os.utime(path)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return value

    def put(self, key: str, value: Mapping[str, Any], group: str = "") -> bool:
        """Store a value and return True; return False if the folder is not writable, which only costs time."""
        path = self._path(key, group)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, lambda part: pq.write_table(_table(value), part, compression="zstd"))
            self._shrink(path)
        except (OSError, DiskFull, ReadOnly):
            return False
        return True

    def array(self, parts: Mapping[str, Any], make: Callable[[], np.ndarray], dtype: str) -> np.ndarray:
        """Return the array for these inputs; make and store it if it is not in the cache."""
        key = cache_key(parts)
        value = self.get(key)
        if value is None:
            value = {"values": np.ascontiguousarray(make(), dtype=dtype)}
            self.put(key, value)
        array: np.ndarray = value["values"]
        return array

    def _path(self, key: str, group: str) -> Path:
        return self.folder / Path(group).name / f"{key}.parquet"

    def _shrink(self, newest: Path) -> None:
        """Remove the least recently used files until the rest fits; the newest file is kept."""
        # Files of every format count, so old files of earlier versions go first. Hidden drafts of other writers do not.
        files = [
            (path.stat(), path) for path in self.folder.rglob("*") if path.is_file() and not path.name.startswith(".")
        ]
        total = sum(stat.st_size for stat, _ in files)
        for stat, path in sorted(files, key=lambda entry: entry[0].st_mtime_ns):
            if total <= self.most_bytes:
                return
            if path != newest:
                path.unlink(missing_ok=True)
                total -= stat.st_size


def cache_key(parts: Mapping[str, Any]) -> str:
    """Return the sha256 of the canonical JSON of a value's inputs and of the storage format."""
    text = json.dumps({"format": FORMAT, **parts}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _table(value: Mapping[str, Any]) -> pa.Table:
    arrays: list[np.ndarray] = []
    rest = _without_arrays(value, arrays)
    rows = {
        "dtype": [array.dtype.name for array in arrays],
        "shape": pa.array([list(array.shape) for array in arrays], pa.list_(pa.int64())),
        "data": pa.array([np.ascontiguousarray(array).tobytes() for array in arrays], pa.large_binary()),
    }
    return pa.table(rows).replace_schema_metadata({META: json.dumps(rest)})


def _without_arrays(value: Any, arrays: list[np.ndarray]) -> Any:
    """Return the value with each array moved to `arrays` and replaced by its index."""
    if isinstance(value, np.ndarray):
        if value.dtype.name not in DTYPES:
            raise TypeError(f"an array of {value.dtype} cannot be stored; known: {', '.join(DTYPES)}.")
        arrays.append(value)
        return {ARRAY: len(arrays) - 1}
    if isinstance(value, Mapping):
        return {str(key): _without_arrays(item, arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_arrays(item, arrays) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _joined(table: pa.Table) -> dict[str, Any]:
    columns = table.to_pydict()
    rows = zip(columns["dtype"], columns["shape"], columns["data"], strict=True)
    arrays = [np.frombuffer(data, dtype=dtype).reshape(shape).copy() for dtype, shape, data in rows]

    def restored(value: dict[str, Any]) -> Any:
        return arrays[value[ARRAY]] if value.keys() == {ARRAY} else value

    value: dict[str, Any] = json_text.loads(table.schema.metadata[META], object_hook=restored)
    return value
