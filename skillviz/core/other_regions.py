"""Alternatives to a region: entries that can be dropped from it, outside entries that hurt its graft most (ours), and
the purified union of several tasks' regions (PAPER.md, section 5).

Other regions with the same performance are found by searches outside of it: `Problem.outside`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import exp

import numpy as np
import torch
from torch import Tensor

from skillviz.core.localizers.candidates import Candidates
from skillviz.core.localizers.learned import Mask, gain_at
from skillviz.core.localizers.record import LocalizerStep, followed
from skillviz.core.problem import Problem
from skillviz.core.ranking import top
from skillviz.core.region import Region
from skillviz.errors import BadInput, BadSize

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


@dataclass(frozen=True)
class PurifyOptions:
    """`steps` as published ("a few": 10); `bias` as in the published mask, `batch_size` as in our ranked one.

    `lr` is the mask's (1e7 as published); 0 means calibrated: to first order about `switch_share` of the union's size
    switches within the steps, and never more than half of the entries that gain. With `delete_only` entries can leave
    the union but none can be added (ours).
    """

    steps: int = 10
    batch_size: int = 128
    lr: float = 0.0
    bias: float = 10.0
    switch_share: float = 0.1
    delete_only: bool = False


@dataclass(frozen=True)
class Purified:
    """The purified region, the union it started from, its steps, and the learning rate of the mask."""

    region: Region
    union: Region
    history: tuple[LocalizerStep, ...]
    lr: float

    @property
    def added(self) -> int:
        """The number of entries that are not in the union."""
        return (self.region - self.union).size

    @property
    def removed(self) -> int:
        """The number of entries removed from the union."""
        return (self.union - self.region).size


@dataclass(repr=False)
class Joint(Problem):
    """Several tasks as one problem: the same movement, the sum of the losses. Its own model is the first task's."""

    tasks: Sequence[Problem] = field(default=())

    @classmethod
    def of(cls, tasks: Sequence[Problem]) -> Joint:
        """Return the joint problem; raises BadInput if the tasks' graftable values differ."""
        if not tasks:
            raise BadInput("purification needs the problem of at least one task.")
        first = tasks[0]
        for other in tasks[1:]:
            if other.table.shapes != first.table.shapes or not (
                _equal(first.base, other.base) and _equal(first.finetuned, other.finetuned)
            ):
                raise BadInput(
                    "the tasks' models differ in their graftable parameters; purification needs the tasks of one "
                    "multi-task model, which differ in the head alone."
                )
        return cls(first.flat, first.base, first.finetuned, first.train, first.selection, tasks=tuple(tasks))

    def reset(self) -> None:
        """Put every task's model back to base."""
        for task in self.tasks:
            task.reset()

    def set_soft(self, gamma: Tensor) -> None:
        """Put every task's model at base + gamma * movement."""
        for task in self.tasks:
            task.set_soft(gamma.to(task.flat.device))

    def backward(self, rows: Sequence[np.ndarray]) -> float:
        """Return the sum of the tasks' mean losses over their rows, and leave its gradient in `flat.grad`."""
        summed, loss = torch.zeros_like(self.flat.grad), 0.0
        for task, batch in zip(self.tasks, rows, strict=True):
            loss += task.train.backward(batch)
            summed += task.flat.grad.to(summed.device)
        self.flat.grad.copy_(summed)
        return loss


def purify(tasks: Sequence[Problem], union: Region, *, seed: int = 0, options: PurifyOptions | None = None) -> Purified:
    """Return the purified region of these tasks; every model is at base afterwards. See `purification`."""
    history = list[LocalizerStep]()
    region, lr = followed(purification(tasks, union, seed=seed, options=options), history.append)
    return Purified(region, union, tuple(history), lr)


def purification(
    tasks: Sequence[Problem], union: Region, *, seed: int = 0, options: PurifyOptions | None = None
) -> Generator[LocalizerStep, None, tuple[Region, float]]:
    """Yield each step; return the region base XOR (S > bias) and the learning rate used.

    S - lr * dL/dS on the sum of the tasks' losses, each task on its own head and its own batches, with gamma_base the
    union (PAPER.md, sections 4 and 5). The published learning rate switches nothing on some models and everything on
    others, so there is a calibrated one.
    """
    chosen = options or PurifyOptions()
    joint = Joint.of(tasks)
    if dict(union.shapes) != joint.table.shapes:
        raise BadInput("the region belongs to another architecture than these models.")
    if not union.size:
        raise BadInput("there is nothing to purify: the region has no entries.")
    base = torch.from_numpy(union.like(joint.table.shapes).flat()).to(joint.flat.device)
    mask = Mask(joint, base, chosen.bias, seed)
    if chosen.delete_only:
        mask.confine(base)
    batches = [task.draws(chosen.batch_size, seed) for task in tasks]
    with joint.at_base_afterwards():
        lr = chosen.lr or _calibrated(joint, mask, chosen, seed)
        before = mask.region()
        for step, rows in enumerate(islice(zip(*batches, strict=True), chosen.steps), start=1):
            mask.soften()
            loss = joint.backward(rows)
            mask.descend(lr)
            after = mask.region()
            common = int(torch.isin(after, before, assume_unique=True).sum())
            yield LocalizerStep(step, loss, len(after), len(after) - common, len(before) - common, chosen.steps)
            before = after
    return Region.from_flat(before.cpu().numpy(), union.shapes), lr


def _calibrated(joint: Joint, mask: Mask, options: PurifyOptions, seed: int) -> float:
    """exp(bias - 0.5) / (steps * c_k), c_k the k-th largest first-order gain of switching an entry; 0 if none gains."""
    mask.soften()
    joint.backward([next(task.draws(options.batch_size, seed)) for task in joint.tasks])
    gain = gain_at(-(joint.flat.grad * mask.direction), max(1, round(options.switch_share * len(mask.base))))
    return exp(options.bias - 0.5) / (options.steps * gain) if gain else 0.0


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other.to(one.device))
