"""The time for the rest of a run: the remaining work at the pace measured so far.

Before anything is measured, only the counts of work are known; no time is predicted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp

from skillviz.core.formats import counted
from skillviz.core.gain import GAINS, SWEEPS
from skillviz.core.localizers.table import Cost, localizer, rest_of
from skillviz.runs.points import grid_sizes
from skillviz.runs.spec import KINDS, RunSpec

RECENT = 60.0  # seconds of work after which a measurement's weight falls by a factor e: a machine's load changes
OTHERS = "others"  # key in the counts: rows of the other tasks' test sets
OUTSIDE = "out of scope"  # key in the counts: texts that fit no class
GRID = 10  # points of a WiSE path without the shared base
Heard = Callable[[int, int, str, bool], None]
"""The callback of a scoring pass, with a number of scored examples, their tokens, and the state and data set.

The last argument is False for scores from an earlier attempt of the run. A pass ends with a call with 0 examples.
"""


def silent(examples: int, tokens: int, text: str, is_new: bool) -> None:
    """Ignore the report."""


@dataclass
class Pace:
    """Work done, in the caller's unit, and the seconds that it took; the last minute has the most weight."""

    work: float = 0.0
    seconds: float = 0.0

    def add(self, work: float, seconds: float) -> None:
        """Add this much work, which took this many seconds."""
        kept = exp(-seconds / RECENT)
        self.work, self.seconds = kept * self.work + work, kept * self.seconds + seconds

    def left(self, work: float) -> float | None:
        """Return the seconds that this work will take; None if nothing has been measured."""
        if not work:
            return 0.0
        return work * self.seconds / self.work if self.work else None


def passes(spec: RunSpec, counts: Mapping[str, int], sizes: Sequence[int], kinds: int = 1) -> int:
    """Return the number of examples passed through the model to score the grafts; repeated passes count again.

    `counts` are examples by split and of the other tasks, or their tokens; then the result is in tokens. The sum has
    two states per size on validation and test (if the rest is zero, only one for the other sizes than the main one),
    four on the other tasks, and three on texts that fit no class. With the WiSE grid it has the grid's points on every
    test set: the base once, and ten for WiSE-FT and each size. A gain other than 1 adds one state per size and two per
    null. Fitting it adds half of the validation examples per gain, for each of these and for the fine-tuned model; a
    gain for each of `kinds` module kinds adds a state, and every sweep of each kind.
    """
    test, others = counts.get("test", 0), counts.get(OTHERS, 0)
    grid = 1 + GRID * (1 + len(grid_sizes(sizes))) if spec.interpolation and test else 0
    states = 2 * len(sizes) if rest_of(spec.localizer) == "base" else 1 + len(sizes)
    outside = 3 * counts.get(OUTSIDE, 0)
    nulls = len(spec.null_searches)
    states += len(sizes) + 2 * nulls if spec.gain != 1 else 0
    states += 1 if spec.fits_gain else 0
    states += len(sizes) + nulls if spec.gain == KINDS else 0
    half = counts.get("validation", 0) // 2
    fitted = (1 + len(sizes) + nulls) * (len(GAINS) - 1) * half if spec.fits_gain else 0
    fitted += (len(sizes) + nulls) * SWEEPS * kinds * len(GAINS) * half if spec.gain == KINDS else 0
    return fitted + states * (counts.get("validation", 0) + test) + 4 * others + outside + grid * (test + others)


def work_words(spec: RunSpec, cost: Cost, counts: Mapping[str, int], sizes: Sequence[int], kinds: int = 1) -> str:
    """Return `6 searches with 6,400 gradients of examples each, and 30,145 examples to score`.

    `cost` is that of one search. Every null is a search of its own. `counts`, `sizes` and `kinds` are as in `passes`.
    """
    nulls = len(spec.null_searches)
    searches = (1 if localizer(spec.localizer).is_one_search else len(sizes)) + nulls
    ends = (2 + nulls) * (counts.get("validation", 0) + counts.get("test", 0))
    scored = ends + passes(spec, counts, sizes, kinds) + searches * round(cost.forward)
    each = " each" if searches > 1 else ""
    gradients = f"{counted(round(cost.backward), 'gradient')} of examples{each}" if cost.backward else "no gradients"
    return f"{searches:,} search{'es' if searches > 1 else ''} with {gradients}, and {scored:,} examples to score"


@dataclass
class Scored:
    """The finished part of the scoring, of `examples` and `tokens` in total; `pace` is in tokens."""

    examples: int
    tokens: int
    pace: Pace = field(default_factory=Pace)
    done: int = 0
    done_tokens: int = 0
    at: float = field(default_factory=lambda: time.perf_counter())

    def begin(self) -> None:
        """Start the clock."""
        self.at = time.perf_counter()

    def add(self, examples: int, tokens: int, is_new: bool = True) -> None:
        """Add scored examples; the ones of an earlier attempt do not change the pace."""
        now = time.perf_counter()
        if tokens and is_new:
            self.pace.add(tokens, now - self.at)
        self.at = now
        self.done, self.done_tokens = min(self.examples, self.done + examples), self.done_tokens + tokens

    @property
    def left(self) -> float | None:
        """The seconds until all are scored; None if nothing has been measured."""
        return self.pace.left(max(0, self.tokens - self.done_tokens))
