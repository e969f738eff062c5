"""Read only regular files of a bounded size.

An untrusted folder may hold pipes and devices, and reading them never ends. If the system refuses a read, the store's
own error is raised.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skillviz.errors import BadInput, NotReadable, StoreError

MOST_BYTES = 1 << 20
LONGEST_JSON = 1 << 28
"""The limit for a model's configuration, index or tokenizer: a vocabulary of a million tokens takes about 100 MiB."""

ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
"""The system's error codes for a path that does not exist. After any other error it is unknown whether it exists."""


@contextmanager
def reading(what: str, damaged: type[StoreError] = NotReadable) -> Iterator[None]:
    """Turn the system's refusal to read `what` into NotReadable.

    Raises `damaged` instead if the file does not exist, or if its bytes are not UTF-8.
    """
    try:
        yield
    except UnicodeError as error:
        raise damaged(f"{what} is not UTF-8 text. Save it as UTF-8, or remove it.") from error
    except OSError as error:
        kind = damaged if error.errno in (None, *ABSENT) else NotReadable
        advice = "" if kind is damaged else " Check its rights and the disk, then try again."
        raise kind(f"{what} cannot be read ({error.strerror or error}).{advice}") from error


def size_of(path: Path | str) -> int | None:
    """Return the bytes of a regular file or of a link to one.

    Returns None if there is no regular file, and raises OSError if the system does not answer. It makes one system
    call, since a list of runs has thousands of files.
    """
    try:
        state = os.stat(path)
    except ValueError:  # not a possible file name
        return None
    except OSError as error:
        if error.errno in ABSENT:
            return None
        raise
    return state.st_size if stat.S_ISREG(state.st_mode) else None


def is_regular(path: Path | str) -> bool:
    """True for a regular file or a link to one; raises OSError if the system does not say."""
    return size_of(path) is not None


def may_be_regular(path: Path | str) -> bool:
    """Like `is_regular`, but True if the system does not answer, so that the file is listed as unreadable."""
    try:
        return is_regular(path)
    except OSError:
        return True


def has_size(path: Path, size: int) -> bool:
    """True for a regular file of this many bytes; False if the system does not answer."""
    try:
        return size_of(path) == size
    except OSError:
        return False


def folder_names(folder: Path) -> list[str]:
    """Return the sorted names in a folder except hidden ones; empty if there is no folder. Raises NotReadable."""
    with reading(f"the folder {folder}"):
        try:
            return sorted(name for name in os.listdir(folder) if not name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []


def regular(path: Path | str) -> Path:
    """Return the path of a file or of a link to one; raises FileNotFoundError for anything else."""
    if not is_regular(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return Path(path)


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Return the UTF-8 text of a regular file of at most `most` bytes (whole MiB).

    Raises BadInput for a device, a pipe, a folder or a longer file, without reading it; OSError and UnicodeDecodeError
    like `Path.read_text`.
    """
    # non-blocking, because opening a pipe without a writer would hang
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise BadInput(f"{path} is not a regular file. Only regular files are read: name one.")
        return bounded_text(file.read(most + 1), path, most)


def bounded_text(content: bytes, name: Path | str, most: int = MOST_BYTES) -> str:
    """Return the UTF-8 text in the bytes of a file with this name; raises BadInput if there are more than `most`."""
    if len(content) > most:
        raise BadInput(
            f"{name} is larger than {most >> 20} MiB, the most that is read of such a file; name another one."
        )
    return content.decode("utf-8")
