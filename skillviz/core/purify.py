"""Purification: a few steps that improve the union of several tasks' regions on their joint loss (PAPER.md, 5).

The paper says that the union is "tuned"; we read this as tuning the mask, not the weights. Its base is the union.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import exp
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from skillviz.core.localizers.learned import Mask
from skillviz.core.localizers.record import LocalizerStep
from skillviz.core.problem import Problem
from skillviz.core.region import Region
from skillviz.errors import BadInput


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
    work, history = purification(tasks, union, seed=seed, options=options), []
    while True:
        try:
            history.append(next(work))
        except StopIteration as end:
            region, lr = end.value
            return Purified(region, union, tuple(history), lr)


def purification(
    tasks: Sequence[Problem], union: Region, *, seed: int = 0, options: PurifyOptions | None = None
) -> Generator[LocalizerStep, None, tuple[Region, float]]:
    """Yield each step; return the region base XOR (S > bias) and the learning rate used.

    S - lr * dL/dS on the sum of the tasks' losses, each task on its own head and its own batches, with gamma_base the
    union (PAPER.md, sections 4 and 5). The published learning rate switches nothing on some models and everything on
    others, so there is a calibrated one.
    """
    chosen, begun = options or PurifyOptions(), perf_counter()
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
            seconds = perf_counter() - begun
            yield LocalizerStep(
                step, loss, len(after), len(after) - common, len(before) - common, seconds, chosen.steps
            )
            before = after
    return Region.from_flat(before.cpu().numpy(), union.shapes), lr


def _calibrated(joint: Joint, mask: Mask, options: PurifyOptions, seed: int) -> float:
    """exp(bias - 0.5) / (steps * c_k), c_k the k-th largest first-order gain of switching an entry; 0 if none gains."""
    mask.soften()
    joint.backward([next(task.draws(options.batch_size, seed)) for task in joint.tasks])
    gains = -(joint.flat.grad * mask.direction)
    gaining = int((gains > 0).sum())
    if not gaining:
        return 0.0
    wanted = max(1, round(options.switch_share * len(mask.base)))
    smallest = float(torch.topk(gains, min(wanted, (gaining + 1) // 2)).values.min())
    return exp(options.bias - 0.5) / (options.steps * smallest)


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other.to(one.device))
