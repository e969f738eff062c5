"""A batch in parts whose gradients are added in their order, by one process or by as many as there are parts.

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
    """`count` parts of each batch. In a process group that is as large, each process computes one part."""

    count: int = 1

    def backward(self, rows: np.ndarray, accumulate: Callable[[np.ndarray], float], grad: Tensor) -> float:
        """The sum of the parts' losses; `grad` then holds the sum of their gradients.

        `accumulate` sets `grad`, which is the tensor it fills, to the gradient of some rows and returns their loss.
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
            # a CUDA group exchanges CUDA tensors alone
            return float(_summed(torch.tensor([loss], dtype=torch.float64, device=grad.device)))
        total, loss = torch.zeros_like(grad), 0.0
        for part in parts:
            loss += accumulate(part)
            total += grad
        grad.copy_(total)
        return loss


def group_size() -> int:
    """Processes of the group that this one has joined, 1 where it has joined none."""
    joined = distributed.is_available() and distributed.is_initialized()
    return int(distributed.get_world_size()) if joined else 1


def _summed(block: Tensor) -> Tensor:
    """The sum of every process's block, first to last, as one process would add them up."""
    blocks = [torch.empty_like(block) for _ in range(group_size())]
    distributed.all_gather(blocks, block.contiguous())
    total = torch.zeros_like(block)
    for one in blocks:
        total += one
    return total
