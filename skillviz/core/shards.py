"""A batch in parts whose gradients are added in order, by one process or by one process per part.

Floating-point sums depend on their order. Here it is fixed: each part's gradient is summed from zero on its own, and
the parts are added first to last. So several processes and one that does their work in turn agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, distributed

from skillviz.errors import BadInput

AT_ONCE = 2**22
"""Entries that are exchanged at a time."""


@dataclass(frozen=True)
class Shards:
    """`count` parts of each batch. In a process group of this size, each process computes one part."""

    count: int = 1

    def backward(self, rows: np.ndarray, accumulate: Callable[[np.ndarray], float], grad: Tensor) -> float:
        """Return the sum of the parts' losses, and leave the sum of their gradients in `grad`.

        `accumulate` sets `grad` to the gradient of some rows and returns their loss.
        """
        parts = np.array_split(rows, self.count)
        processes = group_size()
        if processes not in (1, self.count):
            raise BadInput(
                f"{processes} processes cannot share batches in {self.count} parts; give --data-parallel {processes}."
            )
        if processes > 1:
            loss = accumulate(parts[distributed.get_rank()])
            for block in grad.split(AT_ONCE):
                block.copy_(_summed(block))
            # a CUDA group exchanges CUDA tensors only
            return float(_summed(torch.tensor([loss], dtype=torch.float64, device=grad.device)))
        total, loss = torch.zeros_like(grad), 0.0
        for part in parts:
            loss += accumulate(part)
            total += grad
        grad.copy_(total)
        return loss


def group_size() -> int:
    """Return the number of processes in this one's group, 1 if it has joined none."""
    joined = distributed.is_available() and distributed.is_initialized()
    return int(distributed.get_world_size()) if joined else 1


def _summed(block: Tensor) -> Tensor:
    """Return the sum of every process's block, first to last, in the order in which one process would add them."""
    blocks = [torch.empty_like(block) for _ in range(group_size())]
    distributed.all_gather(blocks, block.contiguous())
    total = torch.zeros_like(block)
    for one in blocks:
        total += one
    return total
