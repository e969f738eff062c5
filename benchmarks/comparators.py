"""Compare calibration intervals: three textbook intervals beside the one that ships, on stored SST-2 predictions.

Percentile, basic and accelerated (BCa) bootstrap follow Davison and Hinkley (1997, chapter 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from benchmarks.frame import Rows, measure
from benchmarks.populations import Population, Side, stored_side, two_class_logits
from skillviz.core.calibration_error import (
    BINS,
    bin_numbers,
    calibration_difference,
    calibration_error,
    equal_width_edges,
)
from skillviz.core.formats import markdown_table
from skillviz.core.intervals import draws

RUN = "sst2-sentences-minilm-l6-stagewise-10646-s0"
SIZES = (300, 600, 1821)
RESAMPLES = 500
METHODS = ("percentile", "basic", "BCa", "shipped")


def populations() -> list[Population]:
    """Return single models and pairs. At true errors of 1 and 0 points, labels are drawn from the confidences."""
    tuned, graft = (stored_side(RUN, state) for state in ("finetuned", "grafted"))
    calibrated, mild = Side(graft.sure, graft.sure), Side(graft.sure, graft.sure - 0.01)
    singles = [Population("error", (side,)) for side in (tuned, graft, mild, calibrated)]
    pairs = [(graft, tuned), (mild, tuned), (calibrated, calibrated)]
    return [*singles, *(Population("difference", sides) for sides in pairs)]


def run(repetitions: int, out: Path) -> pd.DataFrame:
    """Measure every population and sample size that has no rows in `out`: a row for each interval."""
    cells = (
        ({"quantity": one.name, "true": round(100 * one.true(), 2), "n": n}, partial(measured, one, n, repetitions))
        for one in populations() for n in SIZES
    )  # fmt: skip
    return measure(Rows(out, ["quantity", "true", "n"]), cells)


def measured(population: Population, n: int, repetitions: int) -> list[dict[str, object]]:
    """Return coverage and median width in points of each interval."""
    true, random, answers = population.true(), np.random.default_rng(n), []
    for _ in range(repetitions):
        drawn = random.integers(0, len(population.sides[0].sure), n)
        luck = random.random((2, n))
        right = [u <= side.chance[drawn] for u, side in zip(luck, population.sides, strict=False)]
        found = intervals([side.sure[drawn] for side in population.sides], right)
        answers.append([found[method] for method in METHODS])
    low, high = np.array(answers).T
    above = low > true + 1e-12
    holds = ~above & (true <= high + 1e-12)
    about = {"quantity": population.name, "true": round(100 * true, 2), "n": n}
    return [
        about | {
            "interval": method, "repetitions": repetitions, "coverage": round(float(holds[i].mean()), 4),
            "above": round(float(above[i].mean()), 4), "width": round(100 * float(np.median((high - low)[i])), 3),
        }
        for i, method in enumerate(METHODS)
    ]  # fmt: skip


def intervals(sure: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> dict[str, tuple[float, float]]:
    """Both ends of every interval, for one model or for the first less the second; confidences and outcomes [n]."""
    n = len(sure[0])
    gaps = [s - r for s, r in zip(sure, right, strict=True)]
    numbers = [bin_numbers(s, equal_width_edges(BINS)) for s in sure]
    weights = np.concatenate([np.ones((1, n)), _weights(n)])
    sums = [_by_bin(weights, gap, number) for gap, number in zip(gaps, numbers, strict=True)]
    values = _less([np.abs(one).sum(1) for one in sums])
    jackknife = _less([_without_one(*one, total[0]) for *one, total in zip(gaps, numbers, sums, strict=True)])
    value, drawn = float(values[0]), values[1:]
    low, high = np.quantile(drawn, [0.025, 0.975])
    smallest = 0.5 / len(drawn)
    shift = float(ndtri(np.clip((drawn < value).mean(), smallest, 1 - smallest)))
    lean = jackknife.mean() - jackknife
    acceleration = float((lean**3).sum() / (6 * (lean**2).sum() ** 1.5)) if (lean**2).sum() > 0 else 0.0
    logits = [two_class_logits(s, r) for s, r in zip(sure, right, strict=True)]
    labels = np.zeros(n, dtype=int)
    shipped = calibration_difference(*logits, labels) if len(logits) == 2 else calibration_error(logits[0], labels)
    return {
        "percentile": (low, high), "basic": (2 * value - high, 2 * value - low),
        "BCa": _corrected(drawn, shift, acceleration), "shipped": (shipped.low, shipped.high),
    }  # fmt: skip


def _less(values: Sequence[Any]) -> Any:
    """Return the one value, or the first of two less the second."""
    return values[0] - values[1] if len(values) == 2 else values[0]


@lru_cache
def _weights(n: int) -> np.ndarray:
    return np.concatenate(list(draws(n, RESAMPLES, 0)))


def _by_bin(weights: np.ndarray, values: np.ndarray, number: np.ndarray, bins: int = BINS) -> np.ndarray:
    """Return weighted sums by bin over n, [resample, bin]."""
    table = np.zeros((len(values), bins))
    table[np.arange(len(values)), number] = values
    return np.asarray(weights @ table / len(values))


def _without_one(gap: np.ndarray, number: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Return the plug-in without each example, [n]."""
    n = len(gap)
    whole = sums * n
    return np.asarray((np.abs(whole).sum() - np.abs(whole[number]) + np.abs(whole[number] - gap)) / (n - 1))


def _corrected(drawn: np.ndarray, shift: float, acceleration: float) -> tuple[float, float]:
    normal = shift + np.array([-1.96, 1.96])
    low, high = np.quantile(drawn, ndtr(shift + normal / (1 - acceleration * normal)))
    return float(low), float(high)


def table(rows: pd.DataFrame) -> list[str]:
    """Return coverage and width of every interval, with one row per population and sample size."""
    shown = rows.assign(
        shown=[f"{100 * c:.0f}%, {w:.1f}" for c, w in zip(rows["coverage"], rows["width"], strict=True)]
    )
    return markdown_table(("quantity", "true, points", "n", *METHODS), (
        (quantity, f"{true:.1f}", f"{n:,}", *cells.set_index("interval")["shown"].loc[list(METHODS)])
        for (quantity, true, n), cells in shown.groupby(["quantity", "true", "n"], sort=False)
    ))  # fmt: skip
