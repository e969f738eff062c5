"""Measure how often the 95% interval of *beyond the null* contains the truth: simulation on scores with known means.

    python -m benchmarks beyond [--repetitions 1000] [--tables]

Each row of results/coverage_beyond.csv is a cell: a score, the numbers of examples, fine-tuned models and draws, and
the spread of models and draws. With one model and one draw the interval is about that draw; in all other cells it is
about the mean over models and draws. The table of docs/research/coverage.md is made from the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.between_marks import fill
from benchmarks.coverage import RESULTS, ROOT
from benchmarks.progress import Progress
from skillviz.core.beyond import beyond_of_models
from skillviz.core.formats import counted

PAGE = ROOT / "docs" / "research" / "coverage.md"
OUT, COMMAND = RESULTS / "coverage_beyond.csv", "python -m benchmarks beyond"
EXAMPLES, MODELS, DRAWS, SPREADS = (300, 1000), (1, 3), (1, 2, 5, 10), (0.0, 0.06)
GRAFT, NULL = 0.87, 0.75
"""Mean accuracies; in nats the mean loss is 0.4 for the graft and 0.9 for its nulls."""
Scores = tuple[list[np.ndarray], list[np.ndarray], float]


@dataclass(frozen=True)
class Cell:
    """Scores of `n` examples; the levels of models and of draws have the standard deviation `spread`."""

    score: str
    n: int
    models: int
    draws: int
    spread: float


def cells() -> Iterator[Cell]:
    """Yield every cell of the grid."""
    yield from map(Cell, *zip(*itertools.product(("accuracy", "nats"), EXAMPLES, MODELS, DRAWS, SPREADS), strict=True))


def accuracy(cell: Cell, random: np.random.Generator) -> Scores:
    """Return the right answers of each model's graft [n] and of its nulls [draw, n], and the true difference.

    An example that is hard for one is likely to be hard for the others.
    """
    hard, grafts, nulls, levels = random.random(cell.n), [], [], []

    def right(level: float) -> np.ndarray:
        place = np.where(random.random(cell.n) < 0.6, hard, random.random(cell.n))
        return (place < level).astype(np.float64)

    for _ in range(cell.models):
        own = GRAFT + (cell.spread / 2 * random.standard_normal() if cell.models > 1 else 0.0)
        drawn = np.clip(NULL + cell.spread * random.standard_normal(cell.draws), 0.02, 0.98)
        grafts.append(right(min(own, 0.98)))
        nulls.append(np.stack([right(level) for level in drawn]))
        levels.append(own - drawn.mean())
    return grafts, nulls, levels[0] if is_of_one_draw(cell) else GRAFT - NULL


def nats(cell: Cell, random: np.random.Generator) -> Scores:
    """Return the same for minus the loss: a few examples have a loss many times the mean."""
    loss, grafts, nulls, levels = random.gamma(0.5, 2.0, cell.n), [], [], []

    def score(level: float) -> np.ndarray:
        return -(level * loss * random.gamma(4.0, 0.25, cell.n))

    for _ in range(cell.models):
        own = 0.4 + (cell.spread / 2 * random.standard_normal() if cell.models > 1 else 0.0)
        drawn = 0.9 + cell.spread * random.standard_normal(cell.draws)
        grafts.append(score(own))
        nulls.append(np.stack([score(level) for level in drawn]))
        levels.append(drawn.mean() - own)
    return grafts, nulls, levels[0] if is_of_one_draw(cell) else 0.5


SCORES: dict[str, Callable[[Cell, np.random.Generator], Scores]] = {"accuracy": accuracy, "nats": nats}


def is_of_one_draw(cell: Cell) -> bool:
    """True if the interval is over examples alone, and so about the one draw."""
    return cell.models == cell.draws == 1


def measured(cell: Cell, repetitions: int, seed: int) -> dict[str, object]:
    """Return the row of a cell."""
    random, held, widths = np.random.default_rng(seed), 0, []
    for _ in range(repetitions):
        grafts, nulls, true = SCORES[cell.score](cell, random)
        found = beyond_of_models(grafts, nulls)
        held += found.low <= true <= found.high
        widths.append(found.high - found.low)
    return {**asdict(cell), "repetitions": repetitions, "coverage": round(held / repetitions, 4),
            "width": round(float(np.median(widths)), 4)}  # fmt: skip


def run(repetitions: int, out: Path = OUT) -> pd.DataFrame:
    """Measure every cell and write the file."""
    grid = list(cells())
    progress, rows = Progress(out.name, len(grid)), []
    for seed, cell in enumerate(grid):
        rows.append(measured(cell, repetitions, seed))
        progress.step()
    progress.end()
    table = pd.DataFrame(rows)
    table.to_csv(out, index=False)
    return table


def table(rows: pd.DataFrame) -> list[str]:
    """Return the lowest coverage and median width, by fine-tuned models and draws."""
    lines = [
        "| fine-tuned models | draws | lowest coverage, accuracy | nats | median width, points | nats |",
        "|" + " --- |" * 6,
    ]
    for (models, draws), group in rows.groupby(["models", "draws"]):
        by_score = {name: part for name, part in group.groupby("score")}
        lowest = [f"{100 * by_score[name]['coverage'].min():.1f}%" for name in SCORES]
        points, loss = 100 * by_score["accuracy"]["width"].median(), by_score["nats"]["width"].median()
        lines.append(f"| {models} | {draws} | {' | '.join(lowest)} | {points:.1f} | {loss:.2f} |")
    return lines


def write(rows: pd.DataFrame, page: Path = PAGE) -> None:
    """Put the table and the lowest coverage of all cells into the page."""
    worst = rows.loc[rows["coverage"].idxmin()]
    told = (
        f"Lowest of {len(rows)} cells: {100 * worst['coverage']:.1f}% ({worst['score']}, {worst['n']:,} examples, "
        f"{counted(worst['models'], 'fine-tuned model')}, {counted(worst['draws'], 'draw')}, "
        f"spread {worst['spread']:g})."
    )
    fill(page, {"beyond": [*table(rows), "", told]}, COMMAND)
