"""Answers kept beside the runs, as `.live/<run id>/<hash of the request>.parquet`; the one used longest ago goes first.

One row an array (name, dtype, shape, bytes); the rest of the answer is JSON in the file's metadata.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skillviz.atomic import write_file
from skillviz.errors import DiskFull
from skillviz.live.protocol import ARRAY, DTYPES

FOLDER = ".live"
MOST_BYTES = 256 * 2**20
META = b"skillviz"
FORMAT = 1


class Results:
    """The kept answers of one store."""

    def __init__(self, store: Path | str, most_bytes: int = MOST_BYTES) -> None:
        self.root, self.most_bytes = Path(store) / FOLDER, most_bytes

    def get(self, run_id: str, key: str) -> dict[str, Any] | None:
        """The answer kept under this key, exactly as it was; None where there is none that can be read."""
        path = self._path(run_id, key)
        try:
            table = pq.read_table(path)
            found = _joined(table)
            os.utime(path)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found

    def put(self, run_id: str, key: str, value: Mapping[str, Any]) -> bool:
        """Keeps an answer, and says whether it could: a folder that cannot be written to costs time, not answers."""
        path = self._path(run_id, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, lambda part: pq.write_table(_table(value), part, compression="zstd"))
            self._shrink(path)
        except (OSError, DiskFull):
            return False
        return True

    def _path(self, run_id: str, key: str) -> Path:
        return self.root / Path(run_id).name / f"{key}.parquet"

    def _shrink(self, newest: Path) -> None:
        """Removes files, those used longest ago first, until the rest fits; the newest stays."""
        found = [(path.stat(), path) for path in self.root.glob("*/*.parquet")]
        total = sum(stat.st_size for stat, _ in found)
        for stat, path in sorted(found, key=lambda entry: entry[0].st_mtime_ns):
            if total <= self.most_bytes:
                return
            if path != newest:
                path.unlink(missing_ok=True)
                total -= stat.st_size


def request_key(parts: Mapping[str, Any]) -> str:
    """sha256 of a request's canonical JSON and of the format that answers are kept in."""
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
            raise TypeError(f"an array of {value.dtype} cannot be kept; known: {', '.join(DTYPES)}.")
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

    found: dict[str, Any] = json.loads(table.schema.metadata[META], object_hook=restored)
    return found
