"""A test that would wait for ever fails instead."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raises AssertionError where the body takes longer: Python code in the main thread, not a library that waits."""

    def too_long(*_: object) -> None:
        raise AssertionError("a reader waits for what nobody writes")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
