"""The fingerprint of a model: a hash of its weights and of nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from skillviz.models.headers import Stored

CHUNK = 1 << 22
_known: dict[tuple[tuple[str, int, int], ...], str] = {}


def fingerprint(tensors: Mapping[str, Stored]) -> str:
    """sha256 over name, dtype, shape and bytes of each tensor, by name, as hex.

    Neither the folder's name nor the cut into shards changes it. Streamed; kept in memory as long as
    path, size and time of the files stay the same.
    """
    key = tuple(_state(path) for path in sorted({s.file for s in tensors.values()}))
    if key not in _known:
        _known[key] = _hash(tensors)
    return _known[key]


def _state(path: Path) -> tuple[str, int, int]:
    state = path.stat()
    return str(path.resolve()), state.st_size, state.st_mtime_ns


def _hash(tensors: Mapping[str, Stored]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        stored = tensors[name]
        digest.update(json.dumps([name, stored.dtype, list(stored.shape)]).encode())
        with stored.file.open("rb") as file:
            file.seek(stored.start)
            left = stored.end - stored.start
            while left > 0 and (part := file.read(min(CHUNK, left))):
                digest.update(part)
                left -= len(part)
    return digest.hexdigest()
