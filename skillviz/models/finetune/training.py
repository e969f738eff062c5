"""Training by a recipe: one record per step, the metric checked at intervals, the parameters of the best check kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skillviz.core.batches import Batches
from skillviz.core.decoding import scores_of_generated
from skillviz.core.encoded import Encoded, encoding_notes
from skillviz.core.metrics import metric_row, score
from skillviz.core.readout import CausalReadout, make_readout, task_loss
from skillviz.errors import BadData, BadInput
from skillviz.models.finetune.journal import JournalEntry, TrainingState, restore_optimizer, states_of
from skillviz.models.finetune.trainable_model import TrainableModel
from skillviz.models.finetune.training_config import DataSettings, TrainingSettings
from skillviz.tasks.encode import encode
from skillviz.tasks.leaks import digests
from skillviz.tasks.splits import Splits, fingerprint, load
from skillviz.tasks.task import USUAL_LENGTH, Task


@dataclass(frozen=True)
class TrainingData:
    """The splits of one task, each encoded when it is first used."""

    task: Task
    splits: Splits
    readout: str
    _encoded: dict[str, Encoded] = field(default_factory=dict, repr=False)

    def encoded(self, split: str, tokenizer: Any) -> Encoded:
        """Return the split's examples as token ids; all models of one base have the same tokenizer."""
        if split not in self._encoded:
            self._encoded[split] = encode(self.task, getattr(self.splits, split), tokenizer, self.readout)
        return self._encoded[split]

    @property
    def encoding_notes(self) -> tuple[str, ...]:
        """The changes that encoding made to the encoded texts."""
        return encoding_notes(self._encoded)

    def limit(self, tokenizer: Any) -> int:
        """Return the maximum input length in tokens, to which the examples were truncated."""
        return min(self.task.limit(self.readout) or USUAL_LENGTH, int(tokenizer.model_max_length))

    @property
    def counts(self) -> dict[str, int]:
        """The number of examples by split."""
        return {name: len(getattr(self.splits, name)) for name in ("train", "validation", "test")}


def training_data(tasks: Sequence[Task], settings: DataSettings, readout: str) -> list[TrainingData]:
    """Return the tasks' examples, each training set without the texts of another task's test or validation set.

    All examples of the other task count, without caps. A note of the splits gives the number of removed examples.
    Raises BadData if nothing is left to train on.
    """
    splits = [settings.load(task) for task in tasks]
    if len(tasks) == 1:
        return [TrainingData(tasks[0], splits[0], readout)]
    whole_tasks = (load(task, k_shot=settings.k_shot, seed=settings.data_seed) for task in tasks)
    evaluated = [{*digests(whole.validation), *digests(whole.test)} for whole in whole_tasks]
    return [
        TrainingData(
            task,
            _without(task, splits[i], set().union(*(texts for j, texts in enumerate(evaluated) if j != i))),
            readout,
        )
        for i, task in enumerate(tasks)
    ]


def _without(task: Task, splits: Splits, others: set[bytes]) -> Splits:
    """Return the splits without the training examples that have one of these texts."""
    keep = [digest not in others for digest in digests(splits.train)]
    dropped = len(keep) - sum(keep)
    if not dropped:
        return splits
    if dropped == len(keep):
        raise BadData(
            f"every training example of '{task.name}' is also in another task's test or validation set; leave one "
            f"task out."
        )
    train = splits.train[keep].reset_index(drop=True)
    frames = {"train": train, "validation": splits.validation, "test": splits.test}
    note = (
        f"{dropped:,} of {len(keep):,} training examples of {task.name} were left out: their texts are also in "
        f"the test "
        "or validation set of another task that is learned with it."
    )
    return replace(splits, train=train, notes=(*splits.notes, note), fingerprint=fingerprint(frames))


@dataclass(frozen=True)
class TrainStep:
    """One step: mean loss of its batch (nats, without a penalty), and the validation metric if it was checked."""

    step: int
    steps: int
    loss: float
    seconds: float
    metric: float | None = None
    best: bool = False
    """True if this check is the best so far; the later one wins a tie."""


OnStep = Callable[[TrainStep], None]


class Diverged(BadInput):
    """The loss is no longer a number."""


class Trainer:
    """A model with its data: takes batches in the order of the seed, and is checked on fixed examples."""

    def __init__(self, model: TrainableModel, data: TrainingData, settings: TrainingSettings) -> None:
        self.model, self.data, self.settings = model, data, settings
        train, validation = (data.encoded(split, model.tokenizer) for split in ("train", "validation"))
        self.readout, self.batches = make_readout(settings.readout, train), Batches(train, model.device)
        self.order = batch_rows(train.lengths, settings.batch_size, settings.seed)
        n, most = len(validation), settings.check_examples  # the same rows at every check
        rows = np.arange(n) if n <= most else np.sort(np.random.default_rng(0).permutation(n)[:most])
        self.checked = validation.take(rows)

    def backward(self, step: int) -> float:
        """Compute the next batch's gradient and return its mean loss. Dropout is drawn from seed and step."""
        self.model.model.train()
        rows, loss = next(self.order), 0.0
        with torch.random.fork_rng(devices=self.model.random_devices):
            torch.manual_seed(self.settings.seed * 1_000_003 + step)
            for batch in self.batches.micro(rows):
                logits = self.readout.logits(self.model.model, batch).float()
                part = task_loss(logits, batch.labels) / len(rows)
                part.backward()
                loss += float(part.detach())
        _refuse_diverged("loss", loss, step, self.settings)
        return loss

    def skip(self) -> None:
        """Skip the next batch."""
        next(self.order)

    def check(self) -> float:
        """Return the metric on at most `check_examples` validation examples."""
        task = self.data.task
        return evaluate(self.model, self.checked, task.metric, task.positive)[task.metric]

    def merit(self, value: float) -> float:
        """Return a metric's value in the form in which checks are compared: larger is better."""
        return float(metric_row(self.data.task.metric).merit(value))

    def steps(self, entry: JournalEntry | None = None) -> Generator[TrainStep, None, None]:
        """Yield one record per step; afterwards the model has the parameters of the best check, in eval mode."""
        return descend(
            self.model, self.settings, self.backward, self.check, skip=self.skip, entry=entry, merit=self.merit
        )  # fmt: skip


def descend(
    model: TrainableModel,
    settings: TrainingSettings,
    backward: Callable[[int], float],
    check: Callable[[], float],
    after: Callable[[int], None] | None = None,
    *,
    skip: Callable[[], None] = lambda: None,
    entry: JournalEntry | None = None,
    merit: Callable[[float], float] = float,
) -> Generator[TrainStep, None, None]:
    """Yield one record per step; `backward(step)` computes a gradient and returns its loss, `check()` the metric.

    The best check has the largest merit. `after(step)` is called at the end of a step. Afterwards the model has the
    parameters of the best check. With the `entry` of a journal, training resumes from there: the finished steps yield
    their records again, and `skip()` skips the batch of each.
    """
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.SGD
    groups = [group for group in model.groups(settings.weight_decay) if group["params"]]
    optimizer = kind(groups, lr=settings.lr)
    best: float | None = None
    best_values, history = model.copy(), list[TrainStep]()
    kept = entry.restored() if entry is not None else None
    if kept is not None:
        history = [TrainStep(**fields) for fields in kept.history]
        best, best_values = kept.best_metric, list(kept.best)
        if not kept.is_done:
            model.restore(list(kept.values))
            restore_optimizer(optimizer, kept.optimizer)
        for record in history:
            skip()
            yield record

    def state() -> TrainingState:
        done = [asdict(record) for record in history]
        return TrainingState(done, best, best_values, model.copy(), states_of(optimizer))

    started = time.perf_counter() - (history[-1].seconds if history else 0.0)
    for step in range(len(history) + 1, settings.steps + 1):
        for parameter in model.trained:
            parameter.grad = None
        loss = backward(step)
        rate = settings.rate(step)
        _refuse_diverged("gradient's norm", _prepare_gradient(model, settings, rate), step, settings)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        if after is not None:
            after(step)
        value, is_best = None, False
        if step % settings.check_every == 0 or step == settings.steps:
            value = check()
            # a metric that is not defined on the validation examples decides nothing: the last step is kept
            value = value if np.isfinite(value) else None
            is_best = best is None or (value is not None and bool(merit(value) >= merit(best)))
            if is_best:
                best, best_values = value, model.copy()
        record = TrainStep(step, settings.steps, loss, time.perf_counter() - started, value, is_best)
        history.append(record)
        with entry.saving(state) if entry is not None else nullcontext():
            yield record
    model.restore(best_values)
    model.model.eval()
    if entry is not None and entry.is_due:
        entry.save(replace(state(), values=(), optimizer={}))


def run_steps(steps: Generator[TrainStep, None, None], on_step: OnStep) -> list[TrainStep]:
    """Return all records, after passing each to `on_step` as it is made; an error there ends the training at once."""
    history = []
    with closing(steps):
        for record in steps:
            history.append(record)
            on_step(record)
    return history


def shifted(on_step: OnStep, before: int, total: int) -> OnStep:
    """Return an `on_step` that reports the steps of a part as steps of the whole: after `before` steps, of `total`."""
    return lambda record: on_step(replace(record, step=record.step + before, steps=total))


def best_of(history: list[TrainStep]) -> TrainStep:
    """Return the check whose parameters were kept."""
    return max((r for r in history if r.best), key=lambda r: r.step, default=history[-1])


def evaluate(model: TrainableModel, encoded: Encoded, metric: str, positive: int = 1) -> dict[str, float]:
    """Return the metrics of the current model on these examples, by name."""
    readout = make_readout(model.readout, encoded)
    rows, batches = np.arange(len(encoded)), Batches(encoded, model.device)
    model.model.eval()
    if encoded.has_reference and isinstance(readout, CausalReadout):
        generated = scores_of_generated(model.model, batches, readout, rows)
        return score(generated, encoded.labels, metric, positive)
    return score(logits_of(model, encoded), encoded.labels, metric, positive)


def logits_of(model: TrainableModel, encoded: Encoded) -> np.ndarray:
    """Return the class scores of the current model on these examples, float32 [n, label]."""
    readout, batches = make_readout(model.readout, encoded), Batches(encoded, model.device)
    model.model.eval()
    logits = np.empty((len(encoded), encoded.n_labels), dtype=np.float32)
    with torch.inference_mode():
        for batch in batches.micro(np.arange(len(encoded))):
            logits[batch.rows] = readout.logits(model.model, batch).float().cpu().numpy()
    return logits


def metric_values(model: TrainableModel, data: TrainingData, split: str = "validation") -> dict[str, float]:
    """Return the metrics of the current model on a split of the task, by name."""
    return evaluate(model, data.encoded(split, model.tokenizer), data.task.metric, data.task.positive)


def batch_rows(lengths: np.ndarray, batch_size: int, seed: int, pool: int = 32) -> Iterator[np.ndarray]:
    """Yield, endlessly, the rows of seeded batches of similar length, shuffled again every epoch.

    `pool` batches are drawn at random, sorted by length, cut and shuffled. This needs little padding and uses every
    example once per epoch. The last batch of an epoch is filled from the next one, so that all have the same size.
    """
    generator = np.random.default_rng(seed)
    waiting = np.empty(0, dtype=np.int64)
    while True:
        while len(waiting) < batch_size * pool:
            waiting = np.concatenate([waiting, generator.permutation(len(lengths))])
        drawn, waiting = waiting[: batch_size * pool], waiting[batch_size * pool :]
        drawn = drawn[np.argsort(lengths[drawn], kind="stable")].reshape(pool, batch_size)
        yield from drawn[generator.permutation(pool)]


@torch.no_grad()
def add_l1_gradient(parameters: Iterable[tuple[Tensor, Tensor]], weight: float) -> None:
    """Add the gradient of weight * sum |theta - theta_pre|: weight * sign(theta - theta_pre), 0 where they are equal.

    The sign is the subgradient that autograd uses for abs; it is exact wherever an entry moved.
    """
    for theta, pre in parameters:
        slope = torch.sign(theta - pre)
        if theta.grad is None:
            theta.grad = slope.mul_(weight)
        else:
            theta.grad.add_(slope, alpha=weight)


def _prepare_gradient(model: TrainableModel, settings: TrainingSettings, rate: float) -> float:
    """Add the gradient of the penalty, mask locked entries, clip the gradient, and decay locked matrices.

    Returns the gradient's norm before clipping.
    """
    if settings.l1:
        add_l1_gradient(model.moving, settings.l1)
    if model.lock is not None:
        model.lock.mask()
    norm = float(torch.nn.utils.clip_grad_norm_(model.trained, settings.clip))
    if model.lock is not None:
        model.lock.decay(rate * settings.weight_decay)
    return norm


def _refuse_diverged(what: str, value: float, step: int, settings: TrainingSettings) -> None:
    """Raise Diverged if the value is not a number: a step with it would destroy all parameters, even locked ones."""
    if not np.isfinite(value):
        raise Diverged(
            f"the {what} became {value} at step {step} of {settings.steps}, so training stopped and nothing was "
            f"written; lower the learning rate (--lr, now {settings.lr:g})."
        )
