"""The progress reports of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

PHASES = ("check", "load", "predict", "search", "evaluate", "store")


@dataclass(frozen=True)
class Progress:
    """`done` of `total` (None: unknown) in a phase, and a text for the user.

    In the phase search, `loss` (nats) and `size` (entries) are the last step's. `left` is the number of seconds until
    the whole run is finished (None: unknown).
    """

    phase: str
    done: int = 0
    total: int | None = None
    text: str = ""
    loss: float | None = None
    size: int | None = None
    left: float | None = None


Report = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Ignore the report."""
