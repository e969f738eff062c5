"""Locks between processes. On a file system without locks, a file that names its owner is used instead."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)
"""The errors of file systems without locks."""
NOT_OURS = (Timeout, OSError)
"""The errors of taking a lock that another process holds, or whose folder is not writable."""
SOFT = ".held"  # added to the lock's name, because a soft lock's file must not exist while the lock is free

_known: dict[int, bool] = {}
"""Device -> True if its file system has locks; tested once per process."""


def lock_at(path: Path | str, **options: Any) -> BaseFileLock:
    """Return a lock in an existing folder, not yet taken; `options` go to filelock."""
    return FileLock(path, **options) if has_locks(Path(path).parent) else SoftFileLock(f"{path}{SOFT}", **options)


def has_locks(folder: Path) -> bool:
    """True if the folder's file system has locks, or if that cannot be tested: the lock then reports the error."""
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
