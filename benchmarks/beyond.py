"""Measure how often the 95% interval of *beyond the null* contains the truth: simulation on scores with known means.

    python -m benchmarks coverage --part beyond

Each row of results/coverage_beyond.csv is a cell: a score, the numbers of examples, fine-tuned models and draws, and
the spread of models and draws. With one model and one draw the interval is about that draw; in all other cells it is
about the mean over models and draws. The table of docs/research/coverage.md is made from the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.frame import Cells
from skillviz.core.formats import counted, markdown_table
from skillviz.core.nulls import beyond_of_models

EXAMPLES, MODELS, DRAWS, SPREADS = (300, 1000), (1, 3), (1, 2, 5, 10), (0.0, 0.06)
Scores = tuple[list[np.ndarray], list[np.ndarray], float]


class Cell(NamedTuple):
    """Scores of `n` examples; the levels of models and of draws have the standard deviation `spread`."""

    score: str
    n: int
    models: int
    draws: int
    spread: float


@dataclass(frozen=True)
class Score:
    """A score, with the levels of the graft and of its nulls; the difference of two levels is multiplied by `sign`.

    `drawn` takes a level and what all models share, `shared`, both [n].
    """

    graft: float
    null: float
    sign: int
    ends: tuple[float, float]
    shared: Callable[[np.random.Generator, int], np.ndarray]
    drawn: Callable[[np.random.Generator, float, np.ndarray], np.ndarray]


def accuracy(random: np.random.Generator, level: float, hard: np.ndarray) -> np.ndarray:
    """Return right answers [n]; an example that is hard for one model is likely to be hard for the others."""
    place = np.where(random.random(len(hard)) < 0.6, hard, random.random(len(hard)))
    return (place < level).astype(np.float64)


def nats(random: np.random.Generator, level: float, loss: np.ndarray) -> np.ndarray:
    """Return minus the loss [n]; a few examples have a loss many times the mean."""
    return -(level * loss * random.gamma(4.0, 0.25, len(loss)))


SCORES = {
    "accuracy": Score(0.87, 0.75, 1, (0.02, 0.98), lambda random, n: random.random(n), accuracy),
    "nats": Score(0.4, 0.9, -1, (-np.inf, np.inf), lambda random, n: random.gamma(0.5, 2.0, n), nats),
}


def sample(cell: Cell, random: np.random.Generator) -> Scores:
    """Return the scores of each model's graft [n] and of its nulls [draw, n], and the true difference."""
    score, grafts, nulls, levels = SCORES[cell.score], [], [], []
    shared = score.shared(random, cell.n)
    for _ in range(cell.models):
        own = score.graft + (cell.spread / 2 * random.standard_normal() if cell.models > 1 else 0.0)
        drawn = np.clip(score.null + cell.spread * random.standard_normal(cell.draws), *score.ends)
        grafts.append(score.drawn(random, min(own, score.ends[1]), shared))
        nulls.append(np.stack([score.drawn(random, level, shared) for level in drawn]))
        levels.append(own - drawn.mean())
    is_of_one_draw = cell.models == cell.draws == 1
    return grafts, nulls, score.sign * (levels[0] if is_of_one_draw else score.graft - score.null)


def measured(cell: Cell, repetitions: int, seed: int) -> list[dict[str, object]]:
    """Return the row of a cell."""
    random, held, widths = np.random.default_rng(seed), 0, []
    for _ in range(repetitions):
        grafts, nulls, true = sample(cell, random)
        found = beyond_of_models(grafts, nulls)
        held += found.low <= true <= found.high
        widths.append(found.high - found.low)
    return [{**cell._asdict(), "repetitions": repetitions, "coverage": round(held / repetitions, 4),
             "width": round(float(np.median(widths)), 4)}]  # fmt: skip


def table(rows: pd.DataFrame) -> list[str]:
    """Return the lowest coverage and median width, by fine-tuned models and draws, and the lowest cell."""
    found = rows.groupby(["models", "draws", "score"]).agg(low=("coverage", "min"), width=("width", "median"))
    head = ("fine-tuned models", "draws", "lowest coverage, accuracy", "nats", "median width, points", "nats")
    lines = markdown_table(head, (
        (str(models), str(draws), *(f"{100 * of['low'][score]:.1f}%" for score in SCORES),
         f"{100 * of['width']['accuracy']:.1f}", f"{of['width']['nats']:.2f}")
        for (models, draws), of in ((key, part.droplevel([0, 1])) for key, part in found.groupby(["models", "draws"]))
    ))  # fmt: skip
    worst = rows.loc[rows["coverage"].idxmin()]
    return [
        *lines, "", f"Lowest of {len(rows)} cells: {100 * worst['coverage']:.1f}% ({worst['score']}, {worst['n']:,} "
        f"examples, {counted(worst['models'], 'fine-tuned model')}, {counted(worst['draws'], 'draw')}, spread "
        f"{worst['spread']:g}).",
    ]  # fmt: skip


def cells(repetitions: int) -> Cells:
    """Yield every cell, with the function for its row."""
    grid = itertools.starmap(Cell, itertools.product(SCORES, EXAMPLES, MODELS, DRAWS, SPREADS))
    for seed, cell in enumerate(grid):
        yield cell._asdict(), partial(measured, cell, repetitions, seed)
