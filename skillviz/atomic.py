"""Writing a file so that a reader sees all of it or nothing: temporary, fsync, rename."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from skillviz.errors import DiskFull, is_disk_full

TEMPORARY = ".part"


def write_file(path: Path, write: Callable[[Path], object]) -> None:
    """Has `write` fill a temporary file beside `path`, then puts it in place; raises DiskFull.

    After a crash at any point `path` holds what it held before, or all of the new content. Of several that write
    at once the last one counts.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")  # another may write it just now
    with disk_errors(path):
        try:
            write(temporary)
            _sync(temporary)
            os.replace(temporary, path)
            _sync(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write_text(path: Path, text: str) -> None:
    """Puts this text in place at once."""
    write_file(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns "no space left", wrapped by a library or not, into DiskFull."""
    try:
        yield
    except Exception as error:
        if is_disk_full(error):
            raise _disk_full(path) from error
        raise


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _disk_full(path: Path) -> DiskFull:
    return DiskFull(
        f"there is no space left to write {path.name} in {path.parent}; the run is not stored. "
        "Free some space or choose another folder with --runs-dir."
    )


def _sync(path: Path) -> None:
    """Makes sure the file's (or folder's) content is on disk before anything that relies on it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
