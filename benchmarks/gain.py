"""Measure how often the 95% interval of a fitted gain contains the truth: simulation on grafts with known best gain.

    python -m benchmarks coverage --part gain

Each row of results/coverage_gain.csv is a cell: a kind of graft, its best gain and a number of validation examples for
the fit. The truth is the same estimate on 400,000 examples. docs/research/coverage.md has the table.
"""

from __future__ import annotations

import itertools
from functools import cache, partial

import numpy as np
import pandas as pd

from benchmarks.frame import Cells
from skillviz.core.formats import markdown_table
from skillviz.core.gain import GAINS, STEPS, gain_fit

KEY = ["kind", "best", "n"]
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


@cache
def truth(kind: str, best: float) -> float:
    """Return the gain of least NLL of a population."""
    random = np.random.default_rng(0)
    parts = [sample(kind, best, POPULATION // 20, random) for _ in range(20)]
    fits = [gain_fit(logits, labels, resamples=2).value for logits, labels in parts]
    return float(np.exp2(np.log2(np.array(fits) + 1).mean()) - 1)


def measured(kind: str, best: float, n: int, repetitions: int, seed: int) -> list[dict[str, object]]:
    """Return the row of a cell."""
    true, random = truth(kind, best), np.random.default_rng(seed)
    fits = [gain_fit(*sample(kind, best, n, random)) for _ in range(repetitions)]
    held = np.mean([fit.low <= true <= fit.high for fit in fits])
    width = np.median([np.log2((min(fit.high, GAINS[-1]) + 1) / (fit.low + 1)) for fit in fits])
    return [{"kind": kind, "best": best, "n": n, "repetitions": repetitions, "true": round(true, 3),
             "coverage": round(float(held), 4), "width": round(float(width), 3)}]  # fmt: skip


def table(rows: pd.DataFrame) -> list[str]:
    """Return the lowest coverage over gains and kinds, and median width as a factor of gain + 1, by examples."""
    return markdown_table(("examples that fit", "lowest coverage", "median width, factor of α + 1"), (
        (f"{n:,}", f"{100 * group['coverage'].min():.1f}%", f"{2 ** group['width'].median():.2f}")
        for n, group in rows.groupby("n")
    ))  # fmt: skip


def cells(repetitions: int) -> Cells:
    """Yield every cell, with the function for its row."""
    for seed, cell in enumerate(itertools.product(KINDS, BEST, EXAMPLES)):
        yield dict(zip(KEY, cell, strict=True)), partial(measured, *cell, repetitions, seed)
