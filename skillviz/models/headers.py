"""The header of a safetensors file, read without its tensors and without torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from skillviz.errors import CorruptFile

# Bits of an entry, by the format's name of the dtype.
BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "U16": 16,
    "I16": 16,
    "F16": 16,
    "BF16": 16,
    "U32": 32,
    "I32": 32,
    "F32": 32,
    "U64": 64,
    "I64": 64,
    "F64": 64,
}
FLOATS = ("F16", "BF16", "F32", "F64")
LONGEST_HEADER = 100_000_000


@dataclass(frozen=True)
class Stored:
    """One tensor of a file: shape, dtype as the format names it, and its bytes [start, end) in the file."""

    shape: tuple[int, ...]
    dtype: str
    file: Path
    start: int
    end: int


def read_header(path: Path) -> dict[str, Stored]:
    """Name to Stored for every tensor of a file; raises CorruptFile where header and size do not agree."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, LONGEST_HEADER):
            raise _corrupt(path, "it ends inside its header")
        text = file.read(length)
    try:
        entries = json.loads(text)
        tensors = {name: _stored(path, entry, 8 + length) for name, entry in entries.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _corrupt(path, "its header is not readable") from error
    _check_sizes(path, tensors, 8 + length, size)
    return tensors


def _stored(path: Path, entry: dict[str, Any], offset: int) -> Stored:
    start, end = entry["data_offsets"]
    shape = tuple(int(k) for k in entry["shape"])
    return Stored(shape, str(entry["dtype"]), path, offset + int(start), offset + int(end))


def _check_sizes(path: Path, tensors: dict[str, Stored], offset: int, size: int) -> None:
    for name, stored in tensors.items():
        bits = BITS.get(stored.dtype)
        if bits is not None and stored.end - stored.start != prod(stored.shape) * bits // 8:
            raise _corrupt(path, f"the shape of '{name}' does not fit its bytes")
    end = offset
    for stored in sorted(tensors.values(), key=lambda one: (one.start, one.end)):
        if stored.start != end:
            raise _corrupt(path, "its tensors do not lie one after the other")
        end = stored.end
    if end != size:
        raise _corrupt(path, f"it has {size:,} bytes and its header speaks of {end:,}")


def _corrupt(path: Path, why: str) -> CorruptFile:
    return CorruptFile(f"{path} is not a whole safetensors file: {why}; fetch or save it again.")
