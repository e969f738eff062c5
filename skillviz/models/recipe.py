"""The fine-tuning recipe of the paper: plain SGD, and in which order examples come."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from skillviz.errors import BadInput

DEFAULT_STEPS = 2000
"""Steps where no k is given: what MiniLM needed on 6,900 sentences; the paper has no rule without a k."""

LEARNING_RATES = {"head": 1e-2, "prompt": 5e-3, "causal": 5e-3}
"""By readout: a new linear head wants the larger one of the paper's grid {1e-2, 5e-3, 1e-3}."""

HEADS = ("own", "linear")

K_CAP = 512
"""From 4096-shot on the paper stops at 16 * n * 512 steps, where the training accuracy is 100 %."""


@dataclass(frozen=True)
class Recipe:
    """How a model is fine-tuned. SGD without momentum at a constant rate; dropout is on while training."""

    readout: str
    steps: int
    batch_size: int = 8
    lr: float = 5e-3
    seed: int = 0
    weight_decay: float = 1e-4
    """On matrices only: not on biases or LayerNorm weights, as in the authors' code."""
    clip: float = 1.0
    """Largest norm of the gradient of all trained parameters together."""
    check_every: int = 100
    check_examples: int = 512
    train_embeddings: bool = False
    train_head: bool = False
    """Train a language-model head too (prompt and causal); a classification head is always trained."""
    head: str = "own"
    """Of HEADS: the classification head of the model's own class, or the paper's bare linear layer."""


def default_steps(labels: int, k_shot: int | None) -> int:
    """The paper's 16 * n * k steps for a k-shot set (k counted as at most 512 from k = 4096 on), else 2,000."""
    if k_shot is None:
        return DEFAULT_STEPS
    return 16 * labels * (k_shot if k_shot < 4096 else K_CAP)


def make_recipe(
    readout: str,
    labels: int,
    k_shot: int | None = None,
    steps: int | None = None,
    lr: float | None = None,
    batch_size: int = 8,
    seed: int = 0,
    train_embeddings: bool = False,
    train_head: bool = False,
    head: str = "own",
) -> Recipe:
    """The recipe with every default filled in. Raises BadInput for a value that cannot be used."""
    steps = default_steps(labels, k_shot) if steps is None else steps
    lr = LEARNING_RATES[readout] if lr is None else lr
    if steps < 1:
        raise BadInput(f"steps is {steps}; give 1 or more.")
    if batch_size < 1:
        raise BadInput(f"batch size is {batch_size}; give 1 or more.")
    if not 0 < lr < float("inf"):
        raise BadInput(f"the learning rate is {lr}; give a number above 0, as 0.005.")
    if head not in HEADS:
        raise BadInput(f"'{head}' is not a kind of head; known: {', '.join(HEADS)}.")
    if head == "linear" and readout != "head":
        raise BadInput(f"the {readout} readout has no classification head; --head linear goes with --readout head.")
    return Recipe(readout, steps, batch_size, lr, seed, 1e-4, 1.0, 100, 512, train_embeddings, train_head, head)


def batches(lengths: np.ndarray, batch_size: int, seed: int, pool: int = 32) -> Iterator[np.ndarray]:
    """Endless rows of seeded batches of similar length, each epoch shuffled anew.

    `pool` batches are drawn at random, sorted by length, cut and shuffled: little padding, and every example once
    an epoch. The last batch of an epoch is filled from the next one, so that all have the same size.
    """
    generator = np.random.default_rng(seed)
    waiting = np.empty(0, dtype=np.int64)
    while True:
        while len(waiting) < batch_size * pool:
            waiting = np.concatenate([waiting, generator.permutation(len(lengths))])
        drawn, waiting = waiting[: batch_size * pool], waiting[batch_size * pool :]
        drawn = drawn[np.argsort(lengths[drawn], kind="stable")].reshape(pool, batch_size)
        yield from drawn[generator.permutation(pool)]
