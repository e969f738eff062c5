"""The one cache on disk: values beside the runs, each under the hash of what it depends on.

A file has one row an array (dtype, shape, bytes); the rest of the value is JSON in its metadata.
Of a full cache the values used longest ago go first.
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
ARRAY = "__array__"  # stands in JSON for an array that is kept beside it
DTYPES = ("float32", "float64", "int64", "bool")
META = b"skillviz"
FORMAT = 1


class DiskCache:
    """Values in one folder, of `most_bytes` in all; `group` is a folder within it."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder, self.most_bytes = folder, most_bytes

    def get(self, key: str, group: str = "") -> dict[str, Any] | None:
        """The value under this key, exactly as it was; None where there is none that can be read."""
        path = self._path(key, group)
        try:
            value = _joined(pq.read_table(path))
            os.utime(path)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return value

    def put(self, key: str, value: Mapping[str, Any], group: str = "") -> bool:
        """Stores a value, and says whether it could: a folder that cannot be written to costs time, not values."""
        path = self._path(key, group)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, lambda part: pq.write_table(_table(value), part, compression="zstd"))
            self._shrink(path)
        except (OSError, DiskFull, ReadOnly):
            return False
        return True

    def array(self, parts: Mapping[str, Any], make: Callable[[], np.ndarray], dtype: str) -> np.ndarray:
        """The array that depends on these parts; made and stored where it is not there."""
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
        """Removes files, those used longest ago first, until the rest fits; the newest stays."""
        # of any format: what earlier versions stored counts too, and goes first; drafts of other writers are hidden
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
    """sha256 of the canonical JSON of what a value depends on, and of the format that values are stored in."""
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
    """The value with each array moved to `arrays` and its number in its place."""
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
