"""A region: the set of parameter entries that a graft copies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save_file

from skillviz import json_text
from skillviz.errors import BadInput, CorruptFile
from skillviz.regular_file import regular

Shapes = Mapping[str, tuple[int, ...]]
VERSIONS = (1, 2)
"""The versions of region files that can be read: 2 stores indices in the form of `packed`."""
INT32_LIMIT = 2**31
BLOCK = 2**22
"""The number of indices in memory at a time when a region is read in blocks."""


class Region:
    """An immutable set of entries of the graftable parameters.

    `indices` maps a parameter's name to its chosen flat indices (sorted, unique, int64); parameters with none may be
    left out. `shapes` lists *all* graftable parameters in the model's order: it gives `d`, and two regions can only be
    combined if their shapes are equal.
    """

    def __init__(self, indices: Mapping[str, np.ndarray], shapes: Shapes) -> None:
        self.shapes: Shapes = MappingProxyType({n: tuple(int(k) for k in s) for n, s in shapes.items()})
        unknown = [name for name in indices if name not in self.shapes]
        if unknown:
            raise BadInput(f"the region names '{unknown[0]}', which is not a graftable parameter here.")
        if isinstance(indices, _Every):
            self.indices: Mapping[str, np.ndarray] = indices
            return
        chosen = {n: _sorted_indices(n, indices[n], s) for n, s in self.shapes.items() if n in indices}
        self.indices = MappingProxyType({n: i for n, i in chosen.items() if len(i)})

    @classmethod
    def empty(cls, shapes: Shapes) -> Region:
        """Return the empty region: its graft is the base."""
        return cls({}, shapes)

    @classmethod
    def full(cls, shapes: Shapes) -> Region:
        """Return the region of all d entries. Indices are created on access, because for 7 billion they take 56 GB."""
        return cls(_Every({n: prod(s) for n, s in shapes.items()}), shapes)

    @classmethod
    def from_flat(cls, flat: np.ndarray, shapes: Shapes) -> Region:
        """Return the region of these global flat indices (0 <= index < d, parameters one after the other)."""
        flat = np.asarray(flat)
        if flat.size and flat.dtype.kind not in "iu":
            raise BadInput(f"global indices must be integers; got {flat.dtype}.")
        flat = _distinct(flat)
        names, bounds = list(shapes), offsets(shapes)
        if len(flat) and (flat[0] < 0 or flat[-1] >= bounds[-1]):
            raise BadInput(f"a global index must lie in 0..{bounds[-1] - 1:,}; got {flat[0]:,} to {flat[-1]:,}.")
        cuts = np.searchsorted(flat, bounds)
        parts = {n: flat[cuts[i] : cuts[i + 1]] - bounds[i] for i, n in enumerate(names)}
        return cls(parts, shapes)

    def like(self, shapes: Shapes) -> Region:
        """Return the same region with its parameters in the order of `shapes`, which defines flat indices.

        The files of a model, and the model itself, may order the same parameters differently. Raises BadInput if they
        are the parameters of another architecture.
        """
        if dict(self.shapes) != dict(shapes):
            raise BadInput("the region was made for another architecture: its parameters are not this model's.")
        return self if list(self.shapes) == list(shapes) else Region(self.indices, shapes)

    def flat(self) -> np.ndarray:
        """Return global flat indices in the order of `shapes`, sorted, int64 [size]."""
        blocks = list(self.blocks())
        return np.concatenate(blocks) if blocks else np.empty(0, dtype=np.int64)

    def blocks(self, entries: int = BLOCK) -> Iterator[np.ndarray]:
        """Yield `flat` in blocks of whole parameters, each of at least `entries` indices except the last."""
        first = dict(zip(self.shapes, offsets(self.shapes)[:-1], strict=True))
        block: list[np.ndarray] = []
        for name, indices in self.indices.items():
            block.append(indices + first[name])
            if sum(map(len, block)) >= entries:
                yield np.concatenate(block)
                block = []
        if block:
            yield np.concatenate(block)

    @cached_property
    def size(self) -> int:
        """The number of chosen entries."""
        return self.d if isinstance(self.indices, _Every) else sum(len(i) for i in self.indices.values())

    @cached_property
    def d(self) -> int:
        """The number of graftable entries."""
        return sum(prod(s) for s in self.shapes.values())

    def has_all_of(self, name: str) -> bool:
        """True if every entry of this parameter is chosen."""
        if isinstance(self.indices, _Every):
            return name in self.indices
        return name in self.indices and len(self.indices[name]) == prod(self.shapes[name])

    @property
    def share(self) -> float:
        """size / d, between 0 and 1."""
        return self.size / self.d if self.d else float("nan")

    def __repr__(self) -> str:
        return f"Region({self.size:,} of {self.d:,} entries, {100 * self.share:.4g}%)"

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Region)
            and dict(self.shapes) == dict(other.shapes)
            and self.indices.keys() == other.indices.keys()
            and all(np.array_equal(i, other.indices[n]) for n, i in self.indices.items())
        )

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: Region) -> Region:
        """Return the union."""
        return self._combined(other, lambda a, b: _distinct(np.concatenate([a, b])))

    def __and__(self, other: Region) -> Region:
        """Return the intersection."""
        return self._combined(other, lambda a, b: np.intersect1d(a, b, assume_unique=True))

    def __sub__(self, other: Region) -> Region:
        """Return the entries of this region that the other lacks."""
        return self._combined(other, lambda a, b: np.setdiff1d(a, b, assume_unique=True))

    def union(self, other: Region) -> Region:
        """Return `self | other`: the entries of either."""
        return self | other

    def intersection(self, other: Region) -> Region:
        """Return `self & other`: the entries of both."""
        return self & other

    def difference(self, other: Region) -> Region:
        """Return `self - other`: the entries of this region that the other lacks."""
        return self - other

    def complement(self) -> Region:
        """Return all graftable entries outside this region."""
        return Region.full(self.shapes) - self

    def overlap(self, other: Region) -> float:
        """|self and other| / |other| (asymmetric; paper, Fig. 8a); NaN if the other is empty."""
        return (self & other).size / other.size if other.size else float("nan")

    def iou(self, other: Region) -> float:
        """|self and other| / |self or other| (paper, Table 8); NaN if both are empty."""
        both = (self & other).size
        either = self.size + other.size - both
        return both / either if either else float("nan")

    def mask(self, name: str) -> np.ndarray:
        """Return a mask that is True at the chosen entries of this parameter, in the parameter's shape."""
        shape = self.shapes[name]
        mask = np.zeros(prod(shape), dtype=bool)
        mask[self.indices.get(name, np.empty(0, dtype=np.int64))] = True
        return mask.reshape(shape)

    def rows(self, name: str) -> np.ndarray:
        """Return the number of chosen entries in each row of the parameter (a vector is one row), int64."""
        mask = self.mask(name)
        return np.atleast_2d(mask).reshape(len(mask) if mask.ndim > 1 else 1, -1).sum(axis=1)

    def columns(self, name: str) -> np.ndarray:
        """Return the number of chosen entries in each column of the parameter, int64."""
        mask = self.mask(name)
        return mask.reshape(len(mask) if mask.ndim > 1 else 1, -1).sum(axis=0)

    def sha256(self) -> str:
        """Return a hash of the entries and their parameters' shapes; it does not depend on the form of storage."""
        digest = hashlib.sha256()
        for name in sorted(self.indices):
            digest.update(f"{name} {self.shapes[name]}\n".encode())
            digest.update(np.sort(np.asarray(self.indices[name], dtype=np.int64)).tobytes())
        return digest.hexdigest()

    def save(self, path: Path | str, header: Mapping[str, Any] | None = None, compact: bool = False) -> None:
        """Write `<name>` -> sorted indices as safetensors, with the shapes, size, d and `header` as JSON.

        Indices are stored as int32, and as int64 only for a parameter of more than 2^31 entries. A `compact` file
        (version 2) stores each parameter's indices in the smallest form of `packed`. The file has no layout version of
        its own: the run.json beside it has one, and `version` gives the form of the indices.
        """
        meta = {**(header or {}), "format": "skillviz.region", "version": 2 if compact else 1, "size": self.size}
        meta |= {"d": self.d, "shapes": {n: list(s) for n, s in self.shapes.items()}}
        counts = {n: prod(self.shapes[n]) for n in self.indices}
        if compact:
            arrays = {n: packed(i, counts[n]) for n, i in self.indices.items()}
        else:
            arrays = {n: np.ascontiguousarray(i, dtype=index_dtype(counts[n])) for n, i in self.indices.items()}
        separators = (",", ":") if compact else None
        save_file(arrays, path, {"skillviz": json.dumps(meta, separators=separators)})

    @classmethod
    def load(cls, path: Path | str | bytes) -> Region:
        """Load the region from a file, or from a file's bytes; raises CorruptFile if it is not valid."""
        header = cls.header(path)
        if isinstance(path, bytes):
            indices, path = load(path), "the file"
        else:
            with safe_open(path, framework="numpy") as file:
                indices = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        try:
            shapes = {n: tuple(s) for n, s in header["shapes"].items()}
            if header.get("version") == 2:
                indices = {n: unpacked(i, prod(shapes[n])) for n, i in indices.items()}
            region = cls(indices, shapes)
            claimed = int(header["size"])
        except (BadInput, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise CorruptFile(f"{path} is not a valid region file ({error}); make it again.") from error
        if region.size != claimed:
            raise CorruptFile(f"{path} holds {region.size:,} entries and claims {claimed:,}; make it again.")
        return region

    @staticmethod
    def header(path: Path | str | bytes) -> dict[str, Any]:
        """Return the JSON header of a region file, or of a file's bytes."""
        named = "the file" if isinstance(path, bytes) else str(path)
        if not isinstance(path, bytes) and Path(path).is_dir():
            raise BadInput(f"{named} is a folder; name the region file itself, RUN/region.safetensors.")
        try:
            if isinstance(path, bytes):
                length = int.from_bytes(path[:8], "little")
                metadata = json_text.loads(path[8 : 8 + length]).get("__metadata__")
            else:
                with safe_open(regular(path), framework="numpy") as file:
                    metadata = file.metadata()
            meta = json_text.loads((metadata or {}).get("skillviz", "null"))
        except FileNotFoundError as error:
            raise BadInput(
                f"there is no region file at {named}; every finished run has one, RUN/region.safetensors."
            ) from error
        except (SafetensorError, OSError, ValueError) as error:
            raise CorruptFile(
                f"{named} cannot be read as safetensors ({error}); take it from its run again."
            ) from error
        if not isinstance(meta, dict) or meta.get("format") != "skillviz.region":
            raise CorruptFile(
                f"{named} is not a region file: it has no skillviz.region header; name RUN/region.safetensors."
            )
        if meta.get("version", 1) not in VERSIONS:
            raise CorruptFile(
                f"{named} is a region file of version {meta['version']}; this skillviz reads {VERSIONS}. "
                "Update skillviz."
            )
        return meta

    def _combined(self, other: Region, operation: Any) -> Region:
        if dict(self.shapes) != dict(other.shapes):
            raise BadInput(
                "regions of two different architectures cannot be combined: their parameters differ. Take regions of "
                "one base."
            )
        none = np.empty(0, dtype=np.int64)
        names = [n for n in self.shapes if n in self.indices or n in other.indices]
        pairs = {n: (self.indices.get(n, none), other.indices.get(n, none)) for n in names}
        return Region({n: operation(a, b) for n, (a, b) in pairs.items()}, self.shapes)


class _Every(Mapping[str, np.ndarray]):
    """All flat indices of each parameter, created on access; `counts` are the parameters' entries."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = {name: count for name, count in counts.items() if count}

    def __getitem__(self, name: str) -> np.ndarray:
        indices = np.arange(self.counts[name])
        indices.setflags(write=False)
        return indices

    def __iter__(self) -> Iterator[str]:
        return iter(self.counts)

    def __len__(self) -> int:
        return len(self.counts)


def offsets(shapes: Shapes) -> np.ndarray:
    """Return the flat index at which each parameter begins, int64, and last the number of all entries."""
    return np.concatenate([[0], np.cumsum([prod(s) for s in shapes.values()])]).astype(np.int64)


def _sorted_indices(name: str, indices: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    array = np.asarray(indices)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise BadInput(f"indices of '{name}' must be a vector of integers; got {array.dtype} of shape {array.shape}.")
    array = _distinct(array)
    if len(array) and (array[0] < 0 or array[-1] >= prod(shape)):
        raise BadInput(f"indices of '{name}' must lie in 0..{prod(shape) - 1}; got {array[0]} to {array[-1]}.")
    array.setflags(write=False)
    return array


def _distinct(array: np.ndarray) -> np.ndarray:
    """Return a sorted copy without repeats, int64; an array in order is not sorted again.

    `np.unique` uses a hash table: 0.94 s for a million entries here, compared with 0.02 s for sorting.
    """
    array = array.astype(np.int64)
    if not bool((array[1:] > array[:-1]).all()):
        array.sort()
        array = array[np.concatenate([[True], array[1:] > array[:-1]])]
    return array


def index_dtype(count: int) -> type[np.int32] | type[np.int64]:
    """Return the narrowest type in which the indices of `count` entries are stored."""
    return np.int32 if count <= INT32_LIMIT else np.int64


def packed(indices: np.ndarray, count: int) -> np.ndarray:
    """Return the smallest of three forms of sorted, distinct indices in 0..count - 1; its dtype identifies the form.

    int32 or int64: the indices themselves. uint8 or uint16: the gaps, the number of entries between each index and the
    one before it; the type's largest value means that this many entries are skipped and the gap continues in the next
    value. int8 [ceil(count / 8)]: one bit per entry, the first in the highest bit of the first.
    """
    best = np.ascontiguousarray(indices, dtype=index_dtype(count))
    gaps = np.diff(indices.astype(np.int64), prepend=-1) - 1
    for dtype in (np.uint8, np.uint16):
        most = int(np.iinfo(dtype).max)
        if (len(gaps) + int((gaps // most).sum())) * np.dtype(dtype).itemsize < best.nbytes:
            best = _escaped(gaps, most).astype(dtype)
    if (count + 7) // 8 < best.nbytes:
        mask = np.zeros(count, dtype=bool)
        mask[indices] = True
        best = np.packbits(mask).view(np.int8)
    return best


def unpacked(stored: np.ndarray, count: int) -> np.ndarray:
    """Return the indices, int64, from a form of `packed`; raises BadInput if it does not fit `count` entries."""
    if stored.dtype in (np.int32, np.int64):
        return stored.astype(np.int64)
    if stored.dtype in (np.uint8, np.uint16):
        passed = np.cumsum(stored.astype(np.int64))[stored < np.iinfo(stored.dtype).max]
        return passed + np.arange(len(passed))
    if stored.dtype == np.int8 and len(stored) == (count + 7) // 8:
        return np.flatnonzero(np.unpackbits(stored.view(np.uint8), count=count))
    raise BadInput(f"{len(stored):,} values of {stored.dtype} do not hold indices of {count:,} entries")


def _escaped(gaps: np.ndarray, most: int) -> np.ndarray:
    """Return the gaps, with each gap's multiples of `most` written as separate values before the remainder."""
    whole, rest = np.divmod(gaps, most)
    values = np.full(len(gaps) + int(whole.sum()), most, dtype=np.int64)
    values[np.arange(len(gaps)) + np.cumsum(whole)] = rest
    return values
