"""The log-likelihood of an answer after a prompt: one model call per token, without padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def slow_likelihood(model: Any, prompt: np.ndarray, answer: np.ndarray) -> float:
    """Sum over the answer's tokens of log p(token | all earlier tokens), in nats."""
    total, whole = 0.0, [int(token) for token in (*prompt, *answer)]
    for place in range(len(prompt), len(whole)):
        with torch.no_grad():
            scores = model(input_ids=torch.tensor([whole[:place]])).logits[0, -1].double().numpy()
        shifted = np.exp(scores - scores.max())
        total += float(np.log(shifted[whole[place]] / shifted.sum()))
    return total
