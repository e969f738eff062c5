"""The time that the rest of a run takes: the work that is left, at the pace measured on the work that is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp

from skillviz.core.gain import GAINS
from skillviz.core.localizers.table import rest_of
from skillviz.runs.points import grid_sizes
from skillviz.runs.spec import FIT, RunSpec

RECENT = 60.0  # seconds of work after which a measurement counts for e times less: a machine's load changes
OTHERS = "others"  # rows of the other tasks' test sets, among the counts
OUTSIDE = "out of scope"  # texts that fit no class, among the counts
GRID = 10  # points of a WiSE path beside the common base
Heard = Callable[[int, int, str, bool], None]
"""Called with each number of examples that are scored, their tokens, the state and data set, and whether they went
through the model now: the scores of an earlier attempt of the run did not. With 0 examples at the end of a pass."""


def silent(examples: int, tokens: int, text: str, is_new: bool) -> None:
    """Says nothing."""


@dataclass
class Pace:
    """Work done, in the caller's unit, and the seconds that it took; the last minute counts most."""

    work: float = 0.0
    seconds: float = 0.0

    def add(self, work: float, seconds: float) -> None:
        """So much more work took so many seconds."""
        kept = exp(-seconds / RECENT)
        self.work, self.seconds = kept * self.work + work, kept * self.seconds + seconds

    def left(self, work: float) -> float | None:
        """Seconds that this work takes; None where nothing has been measured."""
        if not work:
            return 0.0
        return work * self.seconds / self.work if self.work else None


def passes(spec: RunSpec, counts: Mapping[str, int], sizes: Sequence[int]) -> int:
    """The examples that scoring the grafts passes through the model, each as often as it does so.

    `counts` are examples by split and those of the other tasks, or their tokens, which gives the tokens that pass.
    Two states of each size (of the main one alone where the rest is zero) on validation and test, all four on the
    other tasks, three on texts that fit no class, and with the WiSE grid its points on every test set: the base once,
    and ten for WiSE-FT and each size. Another gain than 1 takes one more state of each size, and two of each null; to
    fit it takes half of the validation examples once a gain, for each of these and the fine-tuned model.
    """
    test, others = counts.get("test", 0), counts.get(OTHERS, 0)
    grid = 1 + GRID * (1 + len(grid_sizes(sizes))) if spec.interpolation and test else 0
    states = 2 * len(sizes) if rest_of(spec.localizer) == "base" else 1 + len(sizes)
    outside = 3 * counts.get(OUTSIDE, 0)
    nulls = len(spec.null_searches)
    states += len(sizes) + 2 * nulls if spec.gain != 1 else 0
    states += 1 if spec.gain == FIT else 0
    fits = (len(GAINS) - 1) * counts.get("validation", 0) // 2 if spec.gain == FIT else 0
    fitted = (1 + len(sizes) + nulls) * fits
    return fitted + states * (counts.get("validation", 0) + test) + 4 * others + outside + grid * (test + others)


@dataclass
class Scored:
    """The scoring that is done, of `examples` and `tokens` in all; `pace` is in tokens."""

    examples: int
    tokens: int
    pace: Pace = field(default_factory=Pace)
    done: int = 0
    done_tokens: int = 0
    at: float = field(default_factory=lambda: time.perf_counter())

    def begin(self) -> None:
        """The clock starts now."""
        self.at = time.perf_counter()

    def add(self, examples: int, tokens: int, is_new: bool = True) -> None:
        """So many more are through; the scores of an earlier attempt measure nothing."""
        now = time.perf_counter()
        if tokens and is_new:
            self.pace.add(tokens, now - self.at)
        self.at = now
        self.done, self.done_tokens = min(self.examples, self.done + examples), self.done_tokens + tokens

    @property
    def left(self) -> float | None:
        """Seconds until all are through; None where nothing has been measured."""
        return self.pace.left(max(0, self.tokens - self.done_tokens))
