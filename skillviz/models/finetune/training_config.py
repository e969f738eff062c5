"""One recipe with every number filled in, and in which order examples come."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from skillviz.core.seeds import LARGEST_SEED
from skillviz.errors import BadInput
from skillviz.models.finetune.recipes import paper_steps, recipe_row

DEFAULT_STEPS = 2000
"""Steps where no k is given: what MiniLM needed on 6,900 sentences; the paper has no rule without a k."""

HEADS = ("own", "linear")

LORA_ALPHA = 8
"""LoRA's changes are multiplied by alpha / rank (Hu et al. 2022, RoBERTa-base)."""


@dataclass(frozen=True)
class Recipe:
    """How a model is fine-tuned. SGD is without momentum; dropout is on while training."""

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
    name: str = "sgd"
    """Of recipes.RECIPES."""
    optimizer: str = "sgd"
    """sgd or adamw (torch's default betas)."""
    schedule: str = "constant"
    """constant, or linear: after the warm-up (a share of the steps) down to 0 at the end."""
    warmup: float = 0.0
    l1: float = 0.0
    """Weight of the sum of absolute movements of trained graftable entries in the loss."""
    rank: int | None = None
    """Of LoRA."""

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 1."""
        if self.schedule == "constant":
            return self.lr
        rising = round(self.warmup * self.steps)
        if step <= rising:
            return self.lr * step / rising
        return self.lr * (self.steps - step + 1) / (self.steps - rising)


def default_steps(labels: int, k_shot: int | None) -> int:
    """The paper's 16 * n * k steps for a k-shot set (k counted as at most 512 from k = 4096 on), else 2,000."""
    if k_shot is None:
        return DEFAULT_STEPS
    return paper_steps(labels, k_shot)


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
    name: str = "sgd",
    rank: int | None = None,
    optimizer: str | None = None,
) -> Recipe:
    """The recipe with every default filled in. Raises BadInput for a value that cannot be used.

    `optimizer` (multi-task and continual) is the recipe whose optimizer, rate and penalty are taken.
    """
    row, moved_by = recipe_row(name), recipe_row(optimizer or name)
    steps = default_steps(labels, k_shot) if steps is None else steps
    lr = moved_by.rates[readout] if lr is None else lr
    if steps < 1:
        raise BadInput(f"steps is {steps}; give 1 or more.")
    if batch_size < 1:
        raise BadInput(f"batch size is {batch_size}; give 1 or more.")
    if not 0 <= seed <= LARGEST_SEED:
        raise BadInput(f"the seed is {seed}; give a whole number from 0 to {LARGEST_SEED:,}.")
    if not 0 < lr < float("inf"):
        raise BadInput(f"the learning rate is {lr}; give a number above 0, as 0.005.")
    if head not in HEADS:
        raise BadInput(f"'{head}' is not a kind of head; known: {', '.join(HEADS)}.")
    if head == "linear" and readout != "head":
        raise BadInput(f"the {readout} readout has no classification head; --head linear goes with --readout head.")
    return Recipe(
        readout, steps, batch_size, lr, seed, 1e-4, 1.0, 100, 512, train_embeddings, train_head, head, name,
        moved_by.optimizer.lower(), moved_by.schedule, moved_by.warmup, moved_by.l1, row.rank if rank is None else rank,
    )  # fmt: skip


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
