"""Fisher information from its definition: the weighted squared gradient of log p(y|x) for every example and class."""

from __future__ import annotations

from itertools import product

import numpy as np
import torch

from tests.reference.gradient import PlainModel


def slow_fisher(model: PlainModel, theta: np.ndarray, rows: list[int]) -> np.ndarray:
    """mean_x sum_y p(y|x) (d log p(y|x) / d theta)^2, float64 [d], with one backward pass per example and class."""
    total = np.zeros(len(theta))
    for row, label in product(rows, range(model.encoded.n_labels)):
        at = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
        log_p = model.logits_at(at, [row])[0].log_softmax(-1)[label]  # a separate forward pass for each class
        total += float(log_p.detach().exp()) * torch.autograd.grad(log_p, at)[0].numpy() ** 2 / len(rows)
    return total
