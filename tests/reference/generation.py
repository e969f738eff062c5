"""Greedy decoding and perplexity by loops: one whole pass of one text a token, nothing padded, nothing kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


def slow_greedy(model: Any, prompt: np.ndarray, most: int, ends: Sequence[int]) -> list[int]:
    """The likeliest token after all tokens so far, again and again; an ending one is the last."""
    seen, made = [int(token) for token in prompt], list[int]()
    while len(made) < most and (not made or made[-1] not in ends):
        with torch.no_grad():
            scores = model(input_ids=torch.tensor([seen])).logits[0, -1]
        made.append(int(scores.argmax()))
        seen.append(made[-1])
    return made


def slow_perplexity(log_likelihoods: Sequence[float], tokens: Sequence[int]) -> float:
    """exp of the nats of all texts over the tokens of all texts."""
    nats = count = 0.0
    for one, n in zip(log_likelihoods, tokens, strict=True):
        nats, count = nats - one, count + n
    return math.exp(nats / count)
