"""The variance term of the paper's generalization bound (appendix D, Theorems D.2 and D.4), for a loss in [0, 1].

With probability of at least 1 - delta over n training examples,

    L_test(graft) - L_test(best of all) <= V + bias + 4 eps1 + eps2
    V = 2 sqrt((s log q + log Theta + log(2 / delta)) / n)

where the s values of a region are each one of q, Theta is the number of regions that the localizer can return, and
`bias` is how much worse the best model inside the region is than the best of all. eps1 is the change of the loss by
rounding to q values, and eps2 how much worse the graft is on the training set than the region trained again. The
difference of two losses is at most 1, so a term of 1 or more says nothing: it is *vacuous*. D.2 prints log(1 / delta),
D.4 and the end of D.2's proof log(2 / delta), which is used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from skillviz.errors import BadInput

VACUOUS = 1.0
DELTA = 0.05
"""The bound holds with probability 95%, the level of all intervals."""


@dataclass(frozen=True)
class Variance:
    """The variance term V of a region of `size` entries among `d`, chosen on `examples` training examples.

    Each value takes `bits` bits, so q = 2**bits. `is_fixed`: the region does not depend on the training examples, so
    Theta = 1; the full region is the only one of its size. For all others Theta = d**size, the paper's upper limit.
    Raises BadInput for numbers out of range."""

    size: int
    d: int
    examples: int
    bits: int = 32
    is_fixed: bool = False
    delta: float = DELTA

    def __post_init__(self) -> None:
        if not (0 <= self.size <= self.d and self.examples > 0 and self.bits > 0 and 0 < self.delta < 1):
            raise BadInput(
                f"{self} has no bound: a size is 0 to d, there is at least one example and one bit, and delta is "
                "between 0 and 1. Change the number that is not."
            )

    @property
    def nats(self) -> dict[str, float]:
        """The three summands over n: s log q of the `values`, log Theta of the `choice`, log(2/delta) of `delta`."""
        is_chosen = not self.is_fixed and self.size < self.d
        return {
            "values": self.size * self.bits * math.log(2),
            "choice": self.size * math.log(self.d) if is_chosen else 0.0,
            "delta": math.log(2 / self.delta),
        }

    @property
    def value(self) -> float:
        """V, as a ratio to the vacuous value 1."""
        return 2 * math.sqrt(math.fsum(self.nats.values()) / self.examples)

    def alone(self, summand: str) -> float:
        """The value that V would have if the other two summands were 0."""
        return 2 * math.sqrt(self.nats[summand] / self.examples)

    def examples_needed(self, level: float = VACUOUS) -> int:
        """The smallest number of examples with which V is below the level."""
        return math.floor(4 * math.fsum(self.nats.values()) / level**2) + 1

    def largest_size(self, level: float = VACUOUS) -> int:
        """The largest region, of less than d entries, with which V is below the level; 0 if not even one entry is."""
        each = self.bits * math.log(2) + (0.0 if self.is_fixed else math.log(self.d))
        room = self.examples * level**2 / 4 - math.log(2 / self.delta)
        return max(0, min(self.d - 1, math.ceil(room / each) - 1))
