"""Alternatives to a region: entries that can be dropped from it, and outside entries that hurt its graft most. Ours.

Other regions with the same performance are found by searches outside of it: `Problem.outside`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
import torch

from skillviz.core.localizers.candidates import Candidates
from skillviz.core.problem import Problem
from skillviz.core.ranking import top
from skillviz.errors import BadSize

FINEST = 1 / 64
"""The smallest share of a region that is dropped at once."""
STEPS, BATCH_SIZE, CANDIDATE_SHARE = 8, 128, 0.1


@dataclass(frozen=True)
class Drop:
    """A try to drop a block: the entries left, the judge's loss in nats without it, and whether it was dropped."""

    size: int
    loss: float
    is_dropped: bool

    def __str__(self) -> str:
        return f"{self.size:,} entries left: loss {self.loss:.4f}, {'dropped' if self.is_dropped else 'kept'}"


def minimal(
    entries: np.ndarray,
    worth: Callable[[np.ndarray], np.ndarray],
    loss: Callable[[np.ndarray], float],
    finest: float = FINEST,
) -> Generator[Drop, None, np.ndarray]:
    """Yield each try; return the entries [k], ascending, that are left of `entries` [n], ascending.

    The entries left are cut into halves by `worth(kept)` [k], then into quarters and so on down to `finest`; each
    block, in order of increasing worth, is dropped if the judge's `loss` without it is at most the loss of all
    `entries`. So the final loss is not higher than the loss of all entries. After ddmin (Zeller and Hildebrandt 2002).
    """
    kept, share, most = entries, 0.5, loss(entries)
    while share >= finest:
        order = kept[np.argsort(worth(kept), kind="stable")]
        for block in np.array_split(order, min(len(order), round(1 / share))):
            if len(block) == len(kept):
                break  # nothing would be left
            rest = np.setdiff1d(kept, block, assume_unique=True)
            found = loss(rest)
            yield Drop(len(rest), found, found <= most)
            kept = rest if found <= most else kept
        share /= 2
    return kept


def worth_of(problem: Problem, entries: torch.Tensor, kept: np.ndarray) -> np.ndarray:
    """Return |g * tau| [k] of the entries `kept` at their graft, on all examples of `problem.train`.

    It is the effect of each alone on the loss, to first order. `kept` is a subset of the watched `entries`. The sign is
    dropped: entries that hurt most to first order push the same way, so a block of them overshoots.
    """
    index = torch.from_numpy(kept).to(entries.device)
    problem.set_region(index)
    problem.train.backward()
    effects = (problem.gradient_at(entries) * problem.movement_at(entries)).abs()
    return effects[torch.searchsorted(entries, index)].cpu().numpy()


def adversarial(
    problem: Problem, region: np.ndarray, size: int, seed: int = 0, steps: int = STEPS, batch_size: int = BATCH_SIZE
) -> Generator[float, None, np.ndarray]:
    """Yield the loss of each step's batch; return `size` entries outside `region`, ascending global flat indices.

    Each step takes the gradient at the graft with the entries chosen so far, adds g * tau to every candidate's harm,
    and chooses the size * step / steps most harmful ones again. Candidates are the largest movers. Raises BadSize if
    too few entries that moved lie outside.
    """
    inside = torch.from_numpy(region).to(problem.device)
    candidates = Candidates.of(problem, CANDIDATE_SHARE, min(problem.d // 2, size + len(region)))
    is_free = torch.isin(candidates.index, inside, invert=True)
    if int(is_free.sum()) < size:
        raise BadSize(f"{size:,} entries were requested, and {int(is_free.sum()):,} candidates lie outside the region.")
    harm, chosen = torch.zeros_like(candidates.tau), candidates.index[:0]
    with problem.at_base_afterwards():
        for step, rows in zip(range(1, steps + 1), problem.draws(batch_size, seed), strict=False):
            problem.set_region(torch.cat([inside, chosen]).sort().values)
            loss = problem.train.backward(rows)
            harm -= candidates.gain(problem)
            worst = top(harm.masked_fill(~is_free, float("-inf")), max(1, round(size * step / steps)))
            chosen = candidates.index[worst]
            yield loss
    return np.sort(chosen.cpu().numpy())
