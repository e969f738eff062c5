"""Measure how often the 95% interval of a fitted gain contains the truth: simulation on grafts with known best gain.

    python -m benchmarks gain [--repetitions 400] [--tables]

Each row of results/coverage_gain.csv is a cell: a kind of graft, its best gain and a number of validation examples for
the fit. The truth is the same estimate on 400,000 examples. docs/research/coverage.md has the table.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.between_marks import fill
from benchmarks.coverage import RESULTS, ROOT
from benchmarks.progress import Progress
from skillviz.core.gain import GAINS, STEPS, gain_fit

PAGE = ROOT / "docs" / "research" / "coverage.md"
OUT, COMMAND = RESULTS / "coverage_gain.csv", "python -m benchmarks gain"
KINDS, BEST, EXAMPLES, POPULATION = ("steep", "flat"), (1.0, 4.0, 16.0), (50, 100, 300, 1000), 400_000


def sample(kind: str, best: float, n: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return logits [gain, n, 2] of grafts of one population, and labels [n].

    Labels are drawn from the probabilities at the best gain. Per step of log2(gain + 1) from there, the margin grows by
    a factor of e (steep), or it levels off and other margins change sign (flat), as for a graft that moves too far.
    """
    margin = random.normal(0, 2, n)
    labels = (random.random(n) < 1 / (1 + np.exp(-margin))).astype(np.int64)
    far = (STEPS - np.log2(best + 1))[:, None]
    if kind == "steep":
        margins = margin * np.exp(far)
    else:
        margins = margin * (1 + np.tanh(far)) + 0.4 * np.maximum(far, 0) * random.normal(0, 1, n)
    return np.stack([-margins / 2, margins / 2], axis=2), labels


def truth(kind: str, best: float) -> float:
    """Return the gain of least NLL of a population."""
    random = np.random.default_rng(0)
    parts = [sample(kind, best, POPULATION // 20, random) for _ in range(20)]
    fits = [gain_fit(logits, labels, resamples=2).value for logits, labels in parts]
    return float(np.exp2(np.log2(np.array(fits) + 1).mean()) - 1)


def run(repetitions: int, out: Path = OUT) -> pd.DataFrame:
    """Measure every cell and write the file."""
    grid = list(itertools.product(KINDS, BEST, EXAMPLES))
    truths = {of: truth(*of) for of in itertools.product(KINDS, BEST)}
    progress, rows = Progress(out.name, len(grid)), []
    for seed, (kind, best, n) in enumerate(grid):
        true, random = truths[kind, best], np.random.default_rng(seed)
        fits = [gain_fit(*sample(kind, best, n, random)) for _ in range(repetitions)]
        held = np.mean([fit.low <= true <= fit.high for fit in fits])
        width = np.median([np.log2((min(fit.high, GAINS[-1]) + 1) / (fit.low + 1)) for fit in fits])
        rows.append((kind, best, n, repetitions, round(true, 3), round(float(held), 4), round(float(width), 3)))
        progress.step()
    progress.end()
    table = pd.DataFrame(rows, columns=["kind", "best", "n", "repetitions", "true", "coverage", "width"])
    table.to_csv(out, index=False)
    return table


def table(rows: pd.DataFrame) -> list[str]:
    """Return the lowest coverage over gains and kinds, and median width as a factor of gain + 1, by examples."""
    lines = ["| examples that fit | lowest coverage | median width, factor of α + 1 |", "|" + " --- |" * 3]
    for n, group in rows.groupby("n"):
        lines.append(f"| {n:,} | {100 * group['coverage'].min():.1f}% | {2 ** group['width'].median():.2f} |")
    return lines


def write(rows: pd.DataFrame, page: Path = PAGE) -> None:
    """Put the table into the page."""
    fill(page, {"gain": table(rows)}, COMMAND)
