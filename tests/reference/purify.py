"""Purification by autograd through the soft mask, on plain float64 models, one example at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from tests.reference.gradient import PlainModel


def joint_loss(
    models: Sequence[PlainModel], names: Sequence[str], theta: torch.Tensor, rows: Sequence[np.ndarray]
) -> torch.Tensor:
    """The sum over the tasks of the mean cross-entropy of their rows, as a function of theta [d]."""
    total = torch.zeros((), dtype=torch.float64)
    for own, chosen in zip(models, rows, strict=True):
        sizes = [p.numel() for p in own.parameters]
        parts = [v.reshape(p.shape) for v, p in zip(theta.split(sizes), own.parameters, strict=True)]
        values = dict(zip(names, parts, strict=True))
        for row in chosen:
            ids = torch.from_numpy(own.encoded.input_ids[row])[None]
            logits = functional_call(own.model, values, kwargs={"input_ids": ids}).logits[0]
            total = total + cross_entropy(logits, torch.tensor(int(own.encoded.labels[row]))) / len(chosen)
    return total


def slow_purify(
    models: Sequence[PlainModel],
    names: Sequence[str],
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
    """The scores [d] after the steps, and the purified set. `sign` -1 ignores that gamma falls with S in the union."""
    theta_0, movement = torch.tensor(base), torch.tensor(tuned - base)
    in_base = torch.zeros(len(base), dtype=torch.float64)
    in_base[list(union)] = 1.0
    s = torch.tensor(scores, dtype=torch.float64)
    for rows in draws:
        s = s.detach().requires_grad_(True)
        u = torch.sigmoid(s - bias)
        gamma = in_base * (1 - u) + (1 - in_base) * u
        if delete_only:
            gamma = in_base * gamma
        loss = joint_loss(models, names, theta_0 + gamma * movement, rows)
        (slope,) = torch.autograd.grad(loss, s)
        if sign < 0:
            slope = torch.where(in_base > 0, -slope, slope)
        s = s.detach() - lr * slope
    flipped = s > bias
    if delete_only:
        flipped &= in_base > 0
    chosen = flipped ^ (in_base > 0)
    return s.numpy(), set(chosen.nonzero().squeeze(1).tolist())
