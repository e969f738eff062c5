"""How many examples the scoring of a run passes through the model, and how long that will still take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from skillviz.runs.points import grid_sizes
from skillviz.runs.spec import RunSpec

OTHERS = "others"  # rows of the other tasks' test sets, among the counts
GRID = 10  # points of a WiSE path beside the common base
Heard = Callable[[int, str], None]
"""Called with each number of examples that went through the model, and what they were scored for."""


def passes(spec: RunSpec, counts: Mapping[str, int], sizes: Sequence[int]) -> int:
    """Examples that the scoring of the grafts passes through the model, each as often as it does so.

    Two states of the main size and one of each other on validation and test, all four on the other tasks, and with
    the WiSE grid its points on every test set: the base once, and ten for WiSE-FT and for each size.
    """
    test, others = counts.get("test", 0), counts.get(OTHERS, 0)
    grid = 1 + GRID * (1 + len(grid_sizes(sizes))) if spec.interpolation and test else 0
    return (1 + len(sizes)) * (counts.get("validation", 0) + test) + 4 * others + grid * (test + others)


@dataclass
class Passed:
    """How many of `total` examples are through; `each` are the seconds of one as far as they were known before."""

    total: int
    each: float | None = None
    done: int = 0
    begun: float | None = None

    def begin(self) -> None:
        """The scoring begins now."""
        self.begun = time.perf_counter()

    def add(self, examples: int) -> None:
        """So many more are through."""
        self.done = min(self.total, self.done + examples)

    @property
    def left(self) -> float | None:
        """Seconds until all are through, at the speed of those before; None where nobody can tell."""
        each = self.each
        if self.done and self.begun is not None:
            each = (time.perf_counter() - self.begun) / self.done
        return None if each is None else round(each * (self.total - self.done), 1)
