"""Greedy decoding, likelihood and perplexity with loops: a whole pass per token of one text, no padding, no cache."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


@torch.no_grad()
def slow_greedy(model: Any, prompt: np.ndarray, most: int, ends: Sequence[int]) -> list[int]:
    """The most likely token after all tokens so far, repeated until a token in `ends` or `most` tokens."""
    seen, made = [int(token) for token in prompt], list[int]()
    while len(made) < most and (not made or made[-1] not in ends):
        made.append(int(model(input_ids=torch.tensor([seen])).logits[0, -1].argmax()))
        seen.append(made[-1])
    return made


@torch.no_grad()
def slow_likelihood(model: Any, prompt: np.ndarray, answer: np.ndarray) -> float:
    """Sum over the answer's tokens of log p(token | all earlier tokens), in nats."""
    total, whole = 0.0, [int(token) for token in (*prompt, *answer)]
    for place in range(len(prompt), len(whole)):
        scores = model(input_ids=torch.tensor([whole[:place]])).logits[0, -1].double().numpy()
        shifted = np.exp(scores - scores.max())
        total += float(np.log(shifted[whole[place]] / shifted.sum()))
    return total


def slow_perplexity(log_likelihoods: Sequence[float], tokens: Sequence[int]) -> float:
    """exp of the nats of all texts over the tokens of all texts."""
    return math.exp(-math.fsum(log_likelihoods) / sum(tokens))
