"""Fisher information from its definition: the weighted squared gradient of log p(y|x) for every example and class."""

from __future__ import annotations

import numpy as np
import torch

from tests.reference.gradient import PlainModel


def slow_fisher(model: PlainModel, theta: np.ndarray, rows: list[int]) -> np.ndarray:
    """mean_x sum_y p(y|x) (d log p(y|x) / d theta)^2, float64 [d], with one backward pass per example and class."""
    model.put(theta)
    for parameter in model.parameters:
        parameter.requires_grad_(True)
    total = np.zeros(len(theta))
    for row in rows:
        for label in range(model.encoded.n_labels):
            log_p = model.logits(row).log_softmax(-1)  # a separate forward pass for each class
            grads = torch.autograd.grad(log_p[label], model.parameters)
            flat = np.concatenate([g.reshape(-1).numpy() for g in grads])
            total += float(log_p[label].detach().exp()) * flat**2 / len(rows)
    for parameter in model.parameters:
        parameter.requires_grad_(False)
    return total
