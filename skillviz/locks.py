"""Locks between processes, also where the file system has none: there a file that names its owner stands for one."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)
"""What file systems without locks say when they are asked for one."""
NOT_OURS = (Timeout, OSError)
"""What taking a lock raises where another process has it, or its place cannot be written."""
SOFT = ".held"  # behind the lock's name: its own file must not be there while the lock is free

_known: dict[int, bool] = {}
"""Device -> whether its file system has locks; asked once a process."""


def lock_at(path: Path | str, **options: Any) -> BaseFileLock:
    """A lock in a folder that is there, not yet taken; `options` go to filelock."""
    return FileLock(path, **options) if has_locks(Path(path).parent) else SoftFileLock(f"{path}{SOFT}", **options)


def has_locks(folder: Path) -> bool:
    """True if the folder's file system has locks; True where that cannot be tried, so that the lock says why."""
    try:
        device = os.stat(folder).st_dev
        if device not in _known:
            with tempfile.TemporaryFile(dir=folder) as file:
                _known[device] = _can_lock(file.fileno())
    except OSError:
        return True
    return _known[device]


def _can_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in NO_LOCKS
    return True
