"""How an early end is told: whatever ends a run is written into its folder, as far as the disk allows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from skillviz.errors import StoreError
from skillviz.runs.failure import failure_of
from skillviz.runs.folder import RunFolder


@contextmanager
def verdict(folder: RunFolder) -> Iterator[None]:
    """Writes why the run in `folder` ended early, once, and lets the error go on."""
    try:
        yield
    except KeyboardInterrupt:
        with suppress(StoreError):  # finished just now, or no room even for this: Ctrl-C stays Ctrl-C
            if _is_open(folder):
                folder.log("cancelled")
                folder.cancel()
        raise
    except Exception as error:
        if _is_open(folder):
            folder.give_up(failure_of(error))
        raise


def _is_open(folder: RunFolder) -> bool:
    with suppress(StoreError):
        return folder.is_open
    return False
