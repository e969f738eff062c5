"""The settings of fine-tuning: how the model is trained, and on which examples. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from skillviz.core.draws import LARGEST_SEED
from skillviz.errors import refuse
from skillviz.models.finetune.recipes import SGD, RecipeRow, check_use, grid_of, paper_steps, recipe_row
from skillviz.tasks.splits import Splits, load
from skillviz.tasks.task import Task

DEFAULT_STEPS = 2000
"""Default steps without a k: enough for MiniLM on 6,900 sentences. The paper has no rule without a k."""

BATCH_SIZE, CHECK_EVERY, CHECK_EXAMPLES = 8, 100, 512

HEADS = ("own", "linear")
KEPT = ("best", "last")


@dataclass(frozen=True)
class TrainingSettings:
    """A recipe with all numbers filled in. SGD is without momentum; dropout is on during training."""

    readout: str
    steps: int
    batch_size: int = BATCH_SIZE
    lr: float = 5e-3
    seed: int = 0
    weight_decay: float = 1e-4
    """On matrices only: not on biases or LayerNorm weights, as in the authors' code."""
    clip: float = 1.0
    """The largest norm of the gradient of all trained parameters together."""
    check_every: int = CHECK_EVERY
    check_examples: int = CHECK_EXAMPLES
    train_embeddings: bool = False
    train_head: bool = False
    """Also train a language-model head (prompt and causal); a classification head is always trained."""
    head: str = "own"
    """One of HEADS: the classification head of the model's own class, or the paper's bare linear layer."""
    name: str = SGD
    """One of recipes.RECIPES."""
    optimizer: str = SGD
    """sgd or adamw (torch's default betas)."""
    schedule: str = "constant"
    """constant, or linear: after the warm-up (a share of the steps) down to 0 at the end."""
    warmup: float = 0.0
    l1: float = 0.0
    """Weight of the sum of absolute movements of trained graftable entries in the loss."""
    rank: int | None = None
    """The rank of LoRA."""
    matrices: int | None = None
    """The number of query and value matrices that LoRA changes, from the last layer backward; None is all."""
    width: int | None = None
    """The inner width of adapters."""

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 1."""
        if self.schedule == "constant":
            return self.lr
        rising = round(self.warmup * self.steps)
        if step <= rising:
            return self.lr * step / rising
        return self.lr * (self.steps - step + 1) / (self.steps - rising)


@dataclass(frozen=True)
class TrainingConfig:
    """The settings for fine-tuning a model; None means the recipe's own default.

    `optimizer` (for recipes with a region or several tasks) is the recipe whose optimizer, rate and penalty are used.
    `grid` is a search on validation data; `rank` and `matrices` are LoRA's, `width` is adapters'. `steps` for a
    sequence of tasks are the steps of each task. `keep` chooses the final parameters: of the best check on validation
    data, or of the last step.
    """

    recipe: str = SGD
    readout: str = "head"
    head: str = "own"
    steps: int | None = None
    batch_size: int = BATCH_SIZE
    lr: float | None = None
    seed: int = 0
    optimizer: str | None = None
    grid: str | None = None
    rank: int | None = None
    train_embeddings: bool = False
    train_head: bool = False
    matrices: int | None = None
    keep: str = "best"
    width: int | None = None

    def check(self, tasks: int = 1, regions: int = 0, mode: str | None = None) -> RecipeRow:
        """Return the recipe's row.

        Raises BadInput if the recipe contradicts the other settings or the numbers of tasks and regions.
        """
        return check_use(
            self.recipe, tasks=tasks, regions=regions, mode=mode, rank=self.rank, grid=self.grid, lr=self.lr,
            matrices=self.matrices, width=self.width, optimizer=self.optimizer,
            extra_trained=self.train_embeddings or self.train_head,
        )  # fmt: skip

    def settings(self, default_steps: int = DEFAULT_STEPS) -> TrainingSettings:
        """Return settings with all numbers filled in; raises BadInput for an invalid value."""
        row, moved_by = recipe_row(self.recipe), recipe_row(self.optimizer or self.recipe)
        steps = default_steps if self.steps is None else self.steps
        lr = moved_by.rates[self.readout] if self.lr is None else self.lr
        refuse(
            (steps < 1, f"steps is {steps}; give 1 or more."),
            (self.batch_size < 1, f"batch size is {self.batch_size}; give 1 or more."),
            (
                not 0 <= self.seed <= LARGEST_SEED,
                f"the seed is {self.seed}; give a whole number from 0 to {LARGEST_SEED:,}.",
            ),
            (not 0 < lr < float("inf"), f"the learning rate is {lr}; give a number above 0, such as 0.005."),
            (self.head not in HEADS, f"'{self.head}' is not a kind of head; known: {', '.join(HEADS)}."),
            (
                self.head == "linear" and self.readout != "head",
                f"the {self.readout} readout has no classification head; a linear head goes with the readout head.",
            ),
            (self.keep not in KEPT, f"keep is '{self.keep}'; known: {', '.join(KEPT)}."),
        )
        return TrainingSettings(
            self.readout, steps, self.batch_size, lr, self.seed,
            check_every=steps if self.keep == "last" else CHECK_EVERY, train_embeddings=self.train_embeddings,
            train_head=self.train_head, head=self.head, name=self.recipe, optimizer=moved_by.optimizer.lower(),
            schedule=moved_by.schedule, warmup=moved_by.warmup, l1=moved_by.l1,
            rank=row.rank if self.rank is None else self.rank, matrices=self.matrices,
            width=row.width if self.width is None else self.width,
        )  # fmt: skip

    def points(self, default_steps: int = DEFAULT_STEPS) -> list[TrainingSettings]:
        """Return the settings to try; without a grid only `settings()`."""
        settings = self.settings(default_steps)
        grid = grid_of(recipe_row(self.recipe), self.grid, self.batch_size, self.optimizer)
        if grid is None:
            return [settings]
        return [replace(settings, batch_size=size, lr=rate) for size in grid.batch_sizes for rate in grid.rates]


@dataclass(frozen=True)
class DataSettings:
    """The examples of a task to use; None is all. `evaluate_test` also scores the test set."""

    k_shot: int | None = None
    data_seed: int = 0
    max_train: int | None = None
    max_validation: int | None = None
    max_test: int | None = None
    evaluate_test: bool = False

    def load(self, task: Task) -> Splits:
        """Return the splits of the task."""
        caps = {"max_train": self.max_train, "max_validation": self.max_validation, "max_test": self.max_test}
        return load(task, k_shot=self.k_shot, seed=self.data_seed, **caps)


def split_settings(values: Mapping[str, Any]) -> tuple[TrainingConfig, DataSettings]:
    """Return the two settings with these values, by field name; None keeps the default. Raises TypeError for others."""
    values = {name: value for name, value in values.items() if value is not None}
    training = {field.name for field in fields(TrainingConfig)}
    return (
        TrainingConfig(**{name: value for name, value in values.items() if name in training}),
        DataSettings(**{name: value for name, value in values.items() if name not in training}),
    )


def default_steps(labels: int, k_shot: int | None) -> int:
    """Return the paper's 16 * n * k steps for a k-shot set (k counts as 512 from k = 4096 on), or 2,000 without a k."""
    return DEFAULT_STEPS if k_shot is None else paper_steps(labels, k_shot)
