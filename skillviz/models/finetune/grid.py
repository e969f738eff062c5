"""A search over batch sizes and learning rates: every point is trained, validation data choose, all are recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skillviz.models.finetune.recipes import grid_of, recipe_row
from skillviz.models.finetune.training import Diverged, TrainStep
from skillviz.models.finetune.training_config import Recipe

Tell = Callable[[TrainStep], None]


@dataclass
class Attempt:
    """One recipe, trained: `held` is what was trained, `value` the mean validation metric that is to be large."""

    recipe: Recipe
    held: Any
    history: list[TrainStep]
    best_step: int
    value: float
    seconds: float


@dataclass(frozen=True)
class Searched:
    """The best attempt, and the record of every point; empty where there was one recipe only."""

    best: Attempt
    points: tuple[dict[str, Any], ...]


def points(recipe: Recipe, grid: str | None, optimizer: str | None = None) -> list[Recipe]:
    """The recipes to try: the one alone without a grid."""
    found = grid_of(recipe_row(recipe.name), grid, recipe.batch_size, optimizer)
    if found is None:
        return [recipe]
    return [replace(recipe, batch_size=b, lr=lr) for b in found.batch_sizes for lr in found.rates]


def search(
    recipes: Sequence[Recipe], attempt: Callable[[Recipe, Tell], Attempt], progress: Tell | None = None
) -> Searched:
    """The attempt with the largest value on validation data, of equal ones the first.

    A point whose loss stops being a number is recorded and passed over; raises what it raised where all do. Only
    the best so far is kept in memory.
    """
    best: Attempt | None = None
    told: list[dict[str, Any]] = []
    error: Diverged | None = None
    for number, recipe in enumerate(recipes):
        point = {"batch_size": recipe.batch_size, "lr": recipe.lr, "steps": recipe.steps}
        try:
            found = attempt(recipe, _shifted(progress, number, len(recipes)))
        except Diverged as fault:
            error = error or fault
            told.append({**point, "value": None, "best_step": None, "seconds": None, "chosen": False})
            continue
        told.append({**point, "value": found.value, "best_step": found.best_step, "seconds": round(found.seconds, 3)})
        if best is None or found.value > best.value:
            best = found
            for other in told:
                other["chosen"] = False
        told[-1]["chosen"] = best is found
    if best is None:
        assert error is not None
        raise error
    return Searched(best, tuple(told) if len(recipes) > 1 else ())


def _shifted(progress: Tell | None, number: int, count: int) -> Tell:
    """Tells the steps of one point of several as steps of the whole."""

    def tell(record: TrainStep) -> None:
        if progress is not None:
            steps = record.steps
            progress(record if count == 1 else replace(record, step=record.step + number * steps, steps=count * steps))

    return tell
