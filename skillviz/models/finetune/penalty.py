"""The l1 penalty on movement: `weight` times sum |theta - theta_pre|, added to the loss by its gradient."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


@torch.no_grad()
def add_l1_gradient(parameters: Iterable[tuple[Tensor, Tensor]], weight: float) -> None:
    """Adds weight * sign(theta - theta_pre) to the gradient of each (theta, theta_pre); 0 where they are equal.

    sign is the subgradient that autograd takes for abs: exact wherever an entry moved.
    """
    for theta, pre in parameters:
        slope = torch.sign(theta - pre)
        if theta.grad is None:
            theta.grad = slope.mul_(weight)
        else:
            theta.grad.add_(slope, alpha=weight)


@torch.no_grad()
def movement(parameters: Iterable[tuple[Tensor, Tensor]]) -> float:
    """sum |theta - theta_pre| over the tensors."""
    return float(sum(float((theta - pre).abs().sum(dtype=torch.float64)) for theta, pre in parameters))
