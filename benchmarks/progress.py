"""Report the progress of a long measurement, and its remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 20.0  # seconds between two lines


class Progress:
    """Report the number of finished cells of `total`, at most one line in 20 seconds."""

    def __init__(self, what: str, total: int, say: Callable[[str], None] = print) -> None:
        self.what, self.total, self.say = what, total, say
        self.done, self.begun = 0, time.monotonic()
        self._said = self.begun

    def step(self) -> int:
        """Count one more finished cell, and return the number of finished cells."""
        self.done += 1
        now = time.monotonic()
        if now - self._said >= SECONDS:
            self._said = now
            left = (now - self.begun) / self.done * (self.total - self.done) / 60
            self.say(f"{self.what}: {self.done} of {self.total} cells, about {left:.0f} min left")
        return self.done

    def end(self) -> None:
        """Report the total time, if anything was done."""
        if self.done:
            self.say(f"{self.what}: {self.done} cells in {(time.monotonic() - self.begun) / 60:.1f} min")
