"""Ctrl-C and SIGTERM, held back until the step at hand is done: a search then stops where it can go on from."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from skillviz.runs.progress import Progress, Report

GRACE = 0.8  # seconds that a step may take after the signal, before it is broken off
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def gently(report: Report) -> Iterator[Report]:
    """A report that raises KeyboardInterrupt at the first step told after Ctrl-C or SIGTERM.

    What takes longer than GRACE is broken off, and so is everything by a second signal. Signals that are
    ignored stay so; outside the main thread, where Python takes no signals, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield report
        return
    asked = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked or number == signal.SIGALRM:
            raise KeyboardInterrupt
        asked = True
        signal.setitimer(signal.ITIMER_REAL, GRACE)

    def told(progress: Progress) -> None:
        report(progress)
        if asked:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

    before = {s: signal.getsignal(s) for s in (*SIGNALS, signal.SIGALRM)}
    taken: dict[signal.Signals, Any] = {s: h for s, h in before.items() if h is not signal.SIG_IGN}
    for number in taken:
        signal.signal(number, on_signal)
    try:
        yield told
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in taken.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
