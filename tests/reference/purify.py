"""Purification by autograd through the soft mask, on plain float64 models, one example at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from tests.reference.gradient import PlainModel


def slow_purify(
    models: Sequence[PlainModel],
    base: np.ndarray,
    tuned: np.ndarray,
    union: Sequence[int],
    scores: np.ndarray,
    draws: Sequence[Sequence[np.ndarray]],
    lr: float,
    bias: float,
    delete_only: bool = False,
    sign: float = 1.0,
) -> tuple[np.ndarray, set[int]]:
    """The scores [d] after the steps, and the purified set. `sign` -1 ignores that gamma falls with S in the union.

    The loss is the sum over the tasks of the mean cross-entropy of their rows.
    """
    start, s = torch.tensor(base), torch.tensor(scores, dtype=torch.float64)
    inside = torch.zeros(len(base), dtype=torch.float64).index_fill_(0, torch.tensor(union), 1.0)
    allowed = inside if delete_only else torch.ones_like(inside)
    for rows in draws:
        s = s.detach().requires_grad_(True)
        u = torch.sigmoid(s - bias)
        theta = start + (inside * (1 - u) + (1 - inside) * u) * allowed * torch.tensor(tuned - base)
        loss = sum(model.loss_at(theta, chosen) for model, chosen in zip(models, rows, strict=True))
        (slope,) = torch.autograd.grad(loss, s)
        s = s.detach() - lr * torch.where(inside > 0, sign * slope, slope)
    chosen = ((s > bias) & (allowed > 0)) ^ (inside > 0)
    return s.numpy(), set(chosen.nonzero().squeeze(1).tolist())
