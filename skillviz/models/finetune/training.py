"""Descent by a recipe: one record a step, the metric looked at now and then, the best check kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
import torch

from skillviz.core.batches import Batches
from skillviz.core.encoded import Encoded
from skillviz.core.metrics import score
from skillviz.core.readout import Readout, make_readout
from skillviz.errors import BadInput
from skillviz.models.finetune.penalty import add_l1_gradient
from skillviz.models.finetune.trainer import Trainee
from skillviz.models.finetune.training_config import Recipe, batches


@dataclass(frozen=True)
class TrainStep:
    """One step: mean loss of its batch (nats, without a penalty), and where it was checked the validation metric."""

    step: int
    steps: int
    loss: float
    seconds: float
    metric: float | None = None
    best: bool = False
    """True where this check is the best so far; of equal ones the later."""


class Diverged(BadInput):
    """The loss is no longer a number."""


@dataclass(frozen=True)
class Lesson:
    """A task as a trainee sees it: encoded examples and what they are judged by."""

    train: Encoded
    validation: Encoded
    metric: str
    positive: int = 1


class Pupil:
    """A trainee with its lesson: hands out batches in the recipe's order, and is checked on fixed examples."""

    def __init__(self, trainee: Trainee, lesson: Lesson, recipe: Recipe) -> None:
        self.trainee, self.lesson, self.recipe = trainee, lesson, recipe
        self.readout, self.seen = make_readout(recipe.readout, lesson.train), Batches(lesson.train, trainee.device)
        rows = _fixed_rows(len(lesson.validation), recipe.check_examples)
        self.checked = lesson.validation.take(rows)
        self.order = batches(lesson.train.lengths, recipe.batch_size, recipe.seed)

    def backward(self, step: int) -> float:
        """The next batch's mean loss; its gradient is then in place. Dropout is drawn from seed and step."""
        self.trainee.model.train()
        rows, loss, recipe = next(self.order), 0.0, self.recipe
        with torch.random.fork_rng(devices=self.trainee.random_devices):
            torch.manual_seed(recipe.seed * 1_000_003 + step)
            for batch in self.seen.micro(rows):
                logits = self.readout.logits(self.trainee.model, batch).float()
                part = torch.nn.functional.cross_entropy(logits, batch.labels, reduction="sum") / len(rows)
                part.backward()
                loss += float(part.detach())
        _refuse_diverged("loss", loss, step, recipe)
        return loss

    def check(self) -> float:
        """The metric on at most `check_examples` validation examples."""
        return evaluate(self.trainee, self.checked, self.lesson.metric, self.lesson.positive)[self.lesson.metric]


def training(
    trainee: Trainee, train: Encoded, validation: Encoded, recipe: Recipe, metric: str, positive: int = 1
) -> Generator[TrainStep, None, None]:
    """One record a step; afterwards the model holds the parameters of the best check, in eval mode."""
    pupil = Pupil(trainee, Lesson(train, validation, metric, positive), recipe)
    return descend(trainee, recipe, pupil.backward, pupil.check)


def descend(
    trainee: Trainee,
    recipe: Recipe,
    backward: Callable[[int], float],
    check: Callable[[], float],
    after: Callable[[int], None] | None = None,
) -> Generator[TrainStep, None, None]:
    """One record a step. `backward(step)` leaves a gradient and returns its loss, `check()` is what is to be large.

    `after(step)` is called when the step is done. Afterwards the trained parameters are those of the best check.
    """
    optimizer = make_optimizer(trainee, recipe)
    best, kept, started = -np.inf, trainee.copy(), time.perf_counter()
    for step in range(1, recipe.steps + 1):
        for parameter in trainee.trained:
            parameter.grad = None
        loss = backward(step)
        rate = recipe.rate(step)
        _refuse_diverged("gradient's norm", _prepare(trainee, recipe, rate), step, recipe)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        if after is not None:
            after(step)
        value, is_best = None, False
        if step % recipe.check_every == 0 or step == recipe.steps:
            value = check()
            is_best = value >= best
            if is_best:
                best, kept = value, trainee.copy()
        yield TrainStep(step, recipe.steps, loss, time.perf_counter() - started, value, is_best)
    trainee.restore(kept)
    trainee.model.eval()


def make_optimizer(trainee: Trainee, recipe: Recipe) -> torch.optim.Optimizer:
    """torch's own SGD or AdamW (default betas) on the trained parameters."""
    kind = torch.optim.AdamW if recipe.optimizer == "adamw" else torch.optim.SGD
    groups = [group for group in trainee.groups(recipe.weight_decay) if group["params"]]
    return kind(groups, lr=recipe.lr)


def evaluate(trainee: Trainee, encoded: Encoded, metric: str, positive: int = 1) -> dict[str, float]:
    """The metrics of the model as it stands on these examples, by name."""
    readout: Readout = make_readout(trainee.readout, encoded)
    logits = np.empty((len(encoded), encoded.n_labels), dtype=np.float32)
    trainee.model.eval()
    with torch.inference_mode():
        for batch in Batches(encoded, trainee.device).micro(np.arange(len(encoded))):
            logits[batch.rows] = readout.logits(trainee.model, batch).float().cpu().numpy()
    return score(logits, encoded.labels, metric, positive)


def best_of(history: list[TrainStep]) -> TrainStep:
    """The check whose parameters were kept."""
    return max((r for r in history if r.best), key=lambda r: r.step, default=history[-1])


def _prepare(trainee: Trainee, recipe: Recipe, rate: float) -> float:
    """The gradient of the penalty added, what is held masked, the whole clipped; held matrices decayed.

    Returns the gradient's norm before it was clipped.
    """
    if recipe.l1:
        add_l1_gradient(trainee.moving, recipe.l1)
    if trainee.hold is not None:
        trainee.hold.mask()
    norm = float(torch.nn.utils.clip_grad_norm_(trainee.trained, recipe.clip))
    if trainee.hold is not None:
        trainee.hold.decay(rate * recipe.weight_decay)
    return norm


def _refuse_diverged(what: str, value: float, step: int, recipe: Recipe) -> None:
    """Raises Diverged where the value is no number: a step by it would spoil every parameter, those held too."""
    if not np.isfinite(value):
        raise Diverged(
            f"the {what} became {value} at step {step} of {recipe.steps}, so training stopped and nothing was "
            f"written; lower the learning rate (--lr, now {recipe.lr:g})."
        )


def _fixed_rows(n: int, most: int) -> np.ndarray:
    """The same rows at every check, drawn once where there are more than `most`."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(0).permutation(n)[:most])
