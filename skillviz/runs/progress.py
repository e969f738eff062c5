"""What a run says while it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

PHASES = ("check", "load", "predict", "search", "evaluate", "store")


@dataclass(frozen=True)
class Progress:
    """`done` of `total` (None: not known) in a phase, and a text for a person.

    In the phase search, `loss` (nats) and `size` (entries) are those of the step just done. `left` is how many seconds
    the whole run still takes; None: nobody can tell.
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
    """Says nothing."""
