"""The runs of a study in one file, `studies/<study>/runs.parquet`, which are read from there and never unpacked.

One row is one file of a run, with its original bytes: `run` (the id), `file`, `size` (bytes), `sha256`, and `content`,
which is missing if an earlier row has the same sha256, since runs of one pair share `ends.parquet`. Rows are sorted by
file (`run.json` first), then by run, and a row group has about GROUP bytes. So a list of runs reads only the records,
and a table of one run little else. A region of LARGE bytes or more is stored as the differences of its indices, which
take half as many bytes compressed (`coded`).

The path of a packed run is the study's file plus its id, `.../runs.parquet/<run id>`. No such path exists on disk, but
the functions of this module read it like a run's folder.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skillviz.atomic import sha256
from skillviz.errors import CorruptRun
from skillviz.regular_file import folder_names, may_be_regular, reading, regular, size_of

STUDIES, FILE = "studies", "runs.parquet"
RECORD, REGION = "run.json", "region.safetensors"
GROUP = 2**18
WORD, LARGE = 4, 2**18
SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("file", pa.string()),
        ("size", pa.int64()),
        ("sha256", pa.string()),
        ("content", pa.binary()),
    ]
)
Stamp = tuple[int, int, int]
"""A file's inode, time and size, which change with the file."""


@dataclass(frozen=True)
class _Index:
    """The index of a study's file: size and sha256 by run and file, and the place of the bytes of each sha256."""

    metadata: pq.FileMetaData
    files: Mapping[str, Mapping[str, tuple[int, str]]]
    places: Mapping[str, tuple[int, int]]


def pack_of(folder: Path) -> Path | None:
    """Return the study's file that contains a run; None for a run's folder."""
    return folder.parent if folder.parent.name == FILE else None


def root_of(folder: Path) -> Path:
    """Return the root of the store that contains a run's folder or a packed run."""
    pack = pack_of(folder)
    return folder.parent if pack is None else pack.parents[2]


def packs(root: Path) -> list[Path]:
    """Return the study files with runs under a store's root; raises NotReadable."""
    studies = root / STUDIES
    return [studies / name / FILE for name in folder_names(studies) if may_be_regular(studies / name / FILE)]


def packed_runs(pack: Path) -> Mapping[str, Path]:
    """Return the path of each run in a study's file, by id; raises CorruptRun or NotReadable."""
    return {run: pack / run for run in _index_of(pack).files}


def stamp(folder: Path) -> Stamp:
    """Return a stamp that changes with the run's record; for a packed run, with the study's file. Raises OSError."""
    return _stamp_of(pack_of(folder) or folder / RECORD)


def file_names(folder: Path) -> Sequence[str]:
    """Return the names of a packed run's files except run.json."""
    return [name for name in _files_of(folder) if name != RECORD]


def sizes_of(folder: Path) -> Callable[[str], int | None]:
    """Return a function from a file name of a run to the file's bytes.

    The function returns None if the file is missing, and raises OSError if the system does not answer. A study's file
    is read only once.
    """
    if pack_of(folder) is None:
        return lambda name: size_of(os.path.join(folder, name))
    files = _files_of(folder)
    return lambda name: files[name][0] if name in files else None


def file_of(folder: Path, name: str) -> Path | bytes:
    """Return the file of a run, or a packed run's bytes; raises FileNotFoundError, CorruptRun or NotReadable."""
    pack = pack_of(folder)
    if pack is None:
        return regular(folder / name)
    if name not in _files_of(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder / name))
    size, digest = _files_of(folder)[name]
    group, row = _index_of(pack).places[digest]
    with _reading(pack):
        content = _contents(pack, _stamp_of(pack), group)[row]
        if content is not None and _is_coded(name, size):
            content = decoded(content, size)
    if content is None or hashlib.sha256(content).hexdigest() != digest:
        raise CorruptRun(f"{name} of {folder.name} was changed in {pack}: its sha256 is not the stored one.")
    return content


def bytes_of(folder: Path, name: str) -> bytes:
    """Return the bytes of a file of a run; raises the errors of `file_of`, and OSError."""
    file = file_of(folder, name)
    return file if isinstance(file, bytes) else file.read_bytes()


def sha256_of(folder: Path, name: str) -> str:
    """Return the hex digest of the bytes of a file of a run; raises the errors of `file_of`, and OSError."""
    file = file_of(folder, name)
    return hashlib.sha256(file).hexdigest() if isinstance(file, bytes) else sha256(file)


def write_pack(path: Path, runs: Mapping[str, Mapping[str, Callable[[], bytes]]]) -> None:
    """Write a new file of these runs: bytes by run and file name, read one by one, each content stored once."""
    rows = [(name, run) for run, files in runs.items() for name in files]
    batch: list[dict[str, Any]] = []
    seen, held = set[str](), 0
    options = {"compression": "zstd", "compression_level": 19, "use_dictionary": False, "write_statistics": False}
    with pq.ParquetWriter(path, SCHEMA, **options) as writer:
        for name, run in sorted(rows, key=lambda row: (row[0] != RECORD, *row)):
            content = runs[run][name]()
            digest = hashlib.sha256(content).hexdigest()
            row = {"run": run, "file": name, "size": len(content), "sha256": digest}
            if digest in seen:
                batch.append(row | {"content": None})
            else:
                batch.append(row | {"content": coded(content) if _is_coded(name, len(content)) else content})
                held += len(content)
                seen.add(digest)
            if held >= GROUP:
                writer.write_table(pa.Table.from_pylist(batch, SCHEMA))
                batch, held = [], 0
        writer.write_table(pa.Table.from_pylist(batch, SCHEMA))


def _is_coded(name: str, size: int) -> bool:
    return name == REGION and size >= LARGE


def coded(content: bytes) -> bytes:
    """Return the differences of a file's successive 4-byte words, all first bytes first; ascending indices have few."""
    words = np.frombuffer(content + bytes(-len(content) % WORD), dtype="<u4")
    return np.diff(words, prepend=words[:1] * 0).view(np.uint8).reshape(-1, WORD).T.tobytes()


def decoded(content: bytes, size: int) -> bytes:
    """Return the `size` bytes of the file that `coded` was given; raises ValueError for other lengths."""
    differences = np.frombuffer(content, dtype=np.uint8).reshape(WORD, -1).T.copy().view("<u4")
    return np.cumsum(differences, dtype="<u4").tobytes()[:size]


def _files_of(folder: Path) -> Mapping[str, tuple[int, str]]:
    """Return the size and sha256 of a packed run's files by name; empty if the study's file has no such run."""
    return _index_of(folder.parent).files.get(folder.name, {})


def _index_of(pack: Path) -> _Index:
    """Return the index of a study's file, read again after a change; raises CorruptRun or NotReadable."""
    with _reading(pack):
        return _index(pack, _stamp_of(pack))


@lru_cache(maxsize=256)
def _index(pack: Path, stamp: Stamp) -> _Index:
    files: dict[str, dict[str, tuple[int, str]]] = {}
    places: dict[str, tuple[int, int]] = {}
    with pq.ParquetFile(regular(pack)) as file:
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, columns=["run", "file", "size", "sha256"]).to_pylist()
            for number, row in enumerate(rows):
                files.setdefault(row["run"], {})[row["file"]] = row["size"], row["sha256"]
                places.setdefault(row["sha256"], (group, number))
        return _Index(file.metadata, files, places)


@lru_cache(maxsize=4)
def _contents(pack: Path, stamp: Stamp, group: int) -> list[bytes | None]:
    """Return the bytes in the rows of a row group; the last ones are cached, as a list of runs reads neighbors."""
    with pq.ParquetFile(pack, metadata=_index(pack, stamp).metadata) as file:
        contents: list[bytes | None] = file.read_row_group(group, columns=["content"])["content"].to_pylist()
    return contents


def _stamp_of(file: Path) -> Stamp:
    state = file.stat()
    return state.st_ino, state.st_mtime_ns, state.st_size


@contextmanager
def _reading(pack: Path) -> Iterator[None]:
    """Turn the errors of a damaged or unreadable study file into CorruptRun or NotReadable."""
    what = f"{FILE} of the study {pack.parent.name}"
    try:
        with reading(what, CorruptRun):
            yield
    except (ValueError, KeyError) as error:  # Arrow's errors are subclasses of these
        raise CorruptRun(f"{what} cannot be read ({error}).") from error
