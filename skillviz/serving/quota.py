"""The limits for one user, set in the environment of a deployment: bytes in the store, and open jobs.

A store over a limit starts nothing new. Its runs can still be opened, compared and deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from skillviz.atomic import folder_lock
from skillviz.core import formats
from skillviz.errors import OverQuota
from skillviz.runs.folder import OPEN
from skillviz.runs.store import ANSWERS, Store, written
from skillviz.serving.settings import settings


def bytes_held(root: Path) -> int:
    """Return the bytes of a store's files, without the live pages' answers, which have their own limit and no owner."""
    total, folders = 0, [root]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name != ANSWERS:
                            folders.append(Path(entry.path))
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:  # it was deleted just now
            continue
    return total


@contextmanager
def in_turn(root: Path, what: str = "start") -> Iterator[None]:
    """Allow one `what` at a time, from checking a store's quota until the new files or jobs count towards it.

    Raises StoreError if the store is not writable.
    """
    with ExitStack() as stack:
        with written(root):
            stack.enter_context(folder_lock(root / what))
        yield


@contextmanager
def room_for(root: Path, size: int) -> Iterator[None]:
    """Reserve this many bytes for the body; with a limit, one upload at a time. Raises OverQuota, StoreError."""
    if settings.quota is None:
        yield
        return
    with in_turn(root, "upload"):
        refuse(root, more=size)
        yield


def refuse(root: Path, more: int = 0) -> None:
    """Raise OverQuota if a store is full, or would be with this many more bytes."""
    most = settings.quota
    if most is not None and (held := bytes_held(root)) + more >= most:
        if more:
            raise OverQuota(
                f"these files ({formats.byte_size(more)}) do not fit: your runs and data hold "
                f"{formats.byte_size(held)} of {formats.byte_size(most)}. Delete runs that you no longer need, or "
                "upload less."
            )
        raise OverQuota(
            f"your runs and data hold {formats.byte_size(held)}, and {formats.byte_size(most)} are allowed; delete "
            "runs that you no longer need to start something new."
        )


def refuse_job(store: Store) -> None:
    """Raise OverQuota if a store is full or has as many open jobs as allowed."""
    refuse(store.root)
    most = settings.open_jobs
    if most is not None and (count := sum(run.record.status in OPEN for run in store.unfinished())) >= most:
        raise OverQuota(
            f"you have {formats.counted(count, 'open job')}, and {most} may be queued or running; wait until one ends, "
            "or cancel one."
        )
