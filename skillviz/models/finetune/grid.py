"""A search over batch sizes and learning rates: every point is trained and recorded, and validation data decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from skillviz.models.finetune.trainable_model import TrainableModel
from skillviz.models.finetune.training import Diverged, OnStep, TrainStep, shifted
from skillviz.models.finetune.training_config import TrainingSettings


@dataclass
class Attempt:
    """The result of one training: one model per task; `value` is the validation metric, averaged over several tasks."""

    settings: TrainingSettings
    models: list[TrainableModel]
    history: list[TrainStep]
    best_step: int
    value: float
    seconds: float


@dataclass(frozen=True)
class GridResult:
    """The best attempt, and the record of every point; empty if there was only one point."""

    best: Attempt
    points: tuple[dict[str, Any], ...]


def search(
    points: Sequence[TrainingSettings],
    attempt: Callable[[TrainingSettings, OnStep], Attempt],
    on_step: OnStep,
    merit: Callable[[float], float] = float,
) -> GridResult:
    """Return the attempt whose value on validation data has the largest merit; the first one wins a tie.

    A point whose loss stops being a number is recorded and skipped; if all do, the first error is raised. Only the best
    attempt so far is kept in memory.
    """
    best: Attempt | None = None
    records: list[dict[str, Any]] = []
    error: Diverged | None = None
    for number, point in enumerate(points):
        record: dict[str, Any] = {"batch_size": point.batch_size, "lr": point.lr, "steps": point.steps}
        records.append(record)
        try:
            current = attempt(point, shifted(on_step, number * point.steps, len(points) * point.steps))
        except Diverged as fault:
            error = error or fault
            record |= {"value": None, "best_step": None, "seconds": None, "chosen": False}
            continue
        record |= {"value": current.value, "best_step": current.best_step, "seconds": round(current.seconds, 3)}
        if best is None or merit(current.value) > merit(best.value):
            best = current
            for other in records:
                other["chosen"] = False
        record["chosen"] = best is current
    if best is None:
        assert error is not None
        raise error
    return GridResult(best, tuple(records) if len(records) > 1 else ())
