"""A time limit for tests: a test that would wait forever fails instead."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise AssertionError if the body takes longer; this stops Python code in the main thread, not a library."""

    def too_long(*_: object) -> None:
        raise AssertionError("a reader waits for what nobody writes")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
