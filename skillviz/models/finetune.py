"""Fine-tuning by the paper's recipe: plain SGD, embeddings and language-model head frozen, the best check kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from skillviz.core.batches import Batches
from skillviz.core.calibration import score
from skillviz.core.encoded import Encoded
from skillviz.core.readout import Readout, make_readout
from skillviz.errors import BadInput
from skillviz.models.applied import refuse_full_folder
from skillviz.models.card import Report, write_folder
from skillviz.models.device import pick
from skillviz.models.recipe import Recipe, batches, make_recipe
from skillviz.models.trainee import Trainee, open_trainee
from skillviz.tasks.encode import encode
from skillviz.tasks.splits import Splits, load
from skillviz.tasks.task import Task


@dataclass(frozen=True)
class TrainStep:
    """One step of SGD: mean loss of its batch (nats), and where it was checked the validation metric."""

    step: int
    steps: int
    loss: float
    seconds: float
    metric: float | None = None
    best: bool = False
    """True where this check is the best so far; of equal ones the later."""


@dataclass(frozen=True)
class Finetuned:
    """Where the fine-tuned model lies, and how it came about."""

    path: Path
    history: tuple[TrainStep, ...]
    best_step: int
    scores: dict[str, dict[str, float]]
    """By split (validation, and test where asked for), then by metric."""
    notes: tuple[str, ...]
    seconds: float


def finetune(
    base: str,
    task: Task,
    *,
    out: Path | str,
    readout: str = "head",
    steps: int | None = None,
    batch_size: int = 8,
    lr: float | None = None,
    seed: int = 0,
    k_shot: int | None = None,
    data_seed: int = 0,
    max_train: int | None = None,
    max_validation: int | None = None,
    max_test: int | None = None,
    evaluate_test: bool = False,
    device: str = "auto",
    train_embeddings: bool = False,
    train_head: bool = False,
    head: str = "own",
    overwrite: bool = False,
    command: str | None = None,
    progress: Callable[[TrainStep], None] | None = None,
) -> Finetuned:
    """The fine-tuned model, written to `out` as an ordinary `from_pretrained` folder with a model card.

    `steps`, `lr` default as `recipe.make_recipe` says; `progress` is called with every step's record.
    Raises BadInput where `out` is not empty (unless `overwrite`) or the loss is no longer a number.
    """
    started, out = time.perf_counter(), Path(out)
    refuse_full_folder(out, overwrite, base)
    recipe = make_recipe(
        readout, len(task.labels), k_shot, steps, lr, batch_size, seed, train_embeddings, train_head, head
    )
    chosen = pick(device)
    caps = {"max_train": max_train, "max_validation": max_validation, "max_test": max_test}
    splits = load(task, k_shot=k_shot, seed=data_seed, **caps)
    trainee = open_trainee(base, task, recipe, chosen)
    train, validation = (encode(task, f, trainee.tokenizer, readout) for f in (splits.train, splits.validation))
    history: list[TrainStep] = []
    for record in training(trainee, train, validation, recipe, task.metric, task.positive):
        history.append(record)
        if progress is not None:
            progress(record)
    best = max((r for r in history if r.best), key=lambda r: r.step, default=history[-1])
    scored = {"validation": validation}
    if evaluate_test:
        scored["test"] = encode(task, splits.test, trainee.tokenizer, readout)
    scores = {name: evaluate(trainee, encoded, task.metric, task.positive) for name, encoded in scored.items()}
    report = Report(
        base=trainee.identity, task=task.name, labels=tuple(task.labels),
        metric=task.metric, recipe=recipe, k_shot=k_shot, data_seed=data_seed, examples=_counts(splits),
        data_fingerprint=splits.fingerprint, scores=scores, best_step=best.step,
        notes=(*trainee.notes, *splits.notes), command=command, seconds=time.perf_counter() - started,
    )  # fmt: skip
    write_folder(out, trainee, report, history, overwrite)
    return Finetuned(out, tuple(history), best.step, scores, report.notes, report.seconds)


def training(
    trainee: Trainee, train: Encoded, validation: Encoded, recipe: Recipe, metric: str, positive: int = 1
) -> Generator[TrainStep, None, None]:
    """One record a step; afterwards the model holds the parameters of the best check, in eval mode."""
    optimizer = torch.optim.SGD(trainee.groups(recipe.weight_decay), lr=recipe.lr)
    readout, seen = make_readout(recipe.readout, train), Batches(train, trainee.device)
    checked = validation.take(_fixed_rows(len(validation), recipe.check_examples))
    order = batches(train.lengths, recipe.batch_size, recipe.seed)
    best, kept, started = -np.inf, trainee.copy(), time.perf_counter()
    for step in range(1, recipe.steps + 1):
        loss = _step(trainee, readout, seen, next(order), recipe, step)
        optimizer.step()
        value, is_best = None, False
        if step % recipe.check_every == 0 or step == recipe.steps:
            value = evaluate(trainee, checked, metric, positive)[metric]
            is_best = value >= best
            if is_best:
                best, kept = value, trainee.copy()
        yield TrainStep(step, recipe.steps, loss, time.perf_counter() - started, value, is_best)
    trainee.restore(kept)
    trainee.model.eval()


def evaluate(trainee: Trainee, encoded: Encoded, metric: str, positive: int = 1) -> dict[str, float]:
    """The metrics of the model as it stands on these examples, by name."""
    readout = make_readout(trainee.readout, encoded)
    logits = np.empty((len(encoded), encoded.n_labels), dtype=np.float32)
    trainee.model.eval()
    with torch.inference_mode():
        for batch in Batches(encoded, trainee.device).micro(np.arange(len(encoded))):
            logits[batch.rows] = readout.logits(trainee.model, batch).float().cpu().numpy()
    return score(logits, encoded.labels, metric, positive)


def _step(trainee: Trainee, readout: Readout, examples: Batches, rows: np.ndarray, recipe: Recipe, step: int) -> float:
    """The batch's mean loss; its clipped gradient is then in place. Dropout is drawn from seed and step."""
    trainee.model.train()
    trainee.model.zero_grad(set_to_none=True)
    loss = 0.0
    with torch.random.fork_rng(devices=trainee.random_devices):
        torch.manual_seed(recipe.seed * 1_000_003 + step)
        for batch in examples.micro(rows):
            logits = readout.logits(trainee.model, batch).float()
            part = torch.nn.functional.cross_entropy(logits, batch.labels, reduction="sum") / len(rows)
            part.backward()
            loss += float(part.detach())
    if not np.isfinite(loss):
        raise BadInput(
            f"the loss became {loss} at step {step} of {recipe.steps}, so training stopped and nothing was written; "
            f"lower the learning rate (--lr, now {recipe.lr:g})."
        )
    torch.nn.utils.clip_grad_norm_(trainee.trained, recipe.clip)
    return loss


def _fixed_rows(n: int, most: int) -> np.ndarray:
    """The same rows at every check, drawn once where there are more than `most`."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(0).permutation(n)[:most])


def _counts(splits: Splits) -> dict[str, int]:
    return {name: len(getattr(splits, name)) for name in ("train", "validation", "test")}
