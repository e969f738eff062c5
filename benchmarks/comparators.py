"""Compare calibration intervals: six textbook intervals beside the one that ships, on stored SST-2 predictions.

Basic, percentile, bias-corrected (BC), accelerated (BCa) and studentized bootstrap follow Davison and Hinkley (1997,
chapter 5). The normal interval is about the plug-in less the bias of folded normals in its bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from benchmarks.populations import Population, Side, stored_side, two_class_logits
from benchmarks.progress import Progress
from skillviz.core.bins import BINS, bin_numbers, equal_width_edges
from skillviz.core.calibration_error import calibration_difference, calibration_error
from skillviz.core.intervals import draws

RUN = "sst2-sentences-minilm-l6-stagewise-10646-s0"
SIZES = (300, 600, 1821)
RESAMPLES = 500
METHODS = ("percentile", "basic", "BC", "BCa", "studentized", "normal", "shipped")


def populations() -> list[Population]:
    """Return single models and pairs. At true errors of 1 and 0 points, labels are drawn from the confidences."""
    tuned, graft = (stored_side(RUN, state) for state in ("finetuned", "grafted"))
    calibrated, mild = Side(graft.sure, graft.sure), Side(graft.sure, graft.sure - 0.01)
    singles = [Population("error", (side,)) for side in (tuned, graft, mild, calibrated)]
    pairs = [(graft, tuned), (mild, tuned), (calibrated, calibrated)]
    return [*singles, *(Population("difference", sides) for sides in pairs)]


def run(repetitions: int, out: Path) -> pd.DataFrame:
    """Return one row per population, sample size and interval; rows in `out` are not measured again."""
    rows = pd.read_csv(out).to_dict("records") if out.is_file() else []
    have = {(row["quantity"], row["true"], row["n"]) for row in rows}
    todo = [(one, n) for one in populations() for n in SIZES if (one.name, _true(one), n) not in have]
    progress = Progress(out.name, len(todo))
    for population, n in todo:
        rows += measured(population, n, repetitions)
        pd.DataFrame(rows).to_csv(out, index=False)
        progress.step()
    progress.end()
    return pd.DataFrame(rows)


def _true(population: Population) -> float:
    errors = population.errors()
    return round(100 * (errors[0] - errors[1] if len(errors) == 2 else errors[0]), 2)


def measured(population: Population, n: int, repetitions: int) -> list[dict[str, object]]:
    """Return coverage and median width in points of each interval."""
    errors = population.errors()
    true = errors[0] - errors[1] if len(errors) == 2 else errors[0]
    random, answers = np.random.default_rng(n), []
    for _ in range(repetitions):
        drawn = random.integers(0, len(population.sides[0].sure), n)
        luck = random.random((2, n))
        right = [u <= side.chance[drawn] for u, side in zip(luck, population.sides, strict=False)]
        answers.append(intervals([side.sure[drawn] for side in population.sides], right))
    ends = np.array([[answer[method] for method in METHODS] for answer in answers])
    rows: list[dict[str, object]] = []
    for method, (low, high) in zip(METHODS, ends.transpose(1, 2, 0), strict=True):
        holds = (low <= true + 1e-12) & (true <= high + 1e-12)
        rows.append({
            "quantity": population.name, "true": _true(population), "n": n, "interval": method,
            "repetitions": repetitions, "coverage": round(float(holds.mean()), 4),
            "above": round(float((low > true + 1e-12).mean()), 4),
            "width": round(100 * float(np.median(high - low)), 3),
        })  # fmt: skip
    return rows


def intervals(sure: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> dict[str, tuple[float, float]]:
    """Both ends of every interval, for one model or for the first less the second; confidences and outcomes [n]."""
    n = len(sure[0])
    gaps = [s - r for s, r in zip(sure, right, strict=True)]
    numbers = [bin_numbers(s, equal_width_edges(BINS)) for s in sure]
    weights = np.concatenate([np.ones((1, n)), _weights(n)])
    sums = [_by_bin(weights, gap, number) for gap, number in zip(gaps, numbers, strict=True)]
    each = np.stack([np.abs(one).sum(1) for one in sums])
    values = each[0] - each[1] if len(each) == 2 else each[0]
    sd = np.sqrt(_variance(weights, gaps, numbers, sums, values) / n)
    without = [_without_one(gap, number, one[0]) for gap, number, one in zip(gaps, numbers, sums, strict=True)]
    jackknife = without[0] - without[1] if len(without) == 2 else without[0]
    value, drawn = float(values[0]), values[1:]
    low, high = np.quantile(drawn, [0.025, 0.975])
    smallest = 0.5 / len(drawn)
    shift = float(ndtri(np.clip((drawn < value).mean(), smallest, 1 - smallest)))
    lean = jackknife.mean() - jackknife
    acceleration = float((lean**3).sum() / (6 * (lean**2).sum() ** 1.5)) if (lean**2).sum() > 0 else 0.0
    t_low, t_high = np.quantile((drawn - value) / np.maximum(sd[1:], 1e-12), [0.025, 0.975])
    signs = (1, -1) if len(each) == 2 else (1,)
    folded = sum(sign * _folding(gap, number) for sign, gap, number in zip(signs, gaps, numbers, strict=True))
    logits = [two_class_logits(s, r) for s, r in zip(sure, right, strict=True)]
    labels = np.zeros(n, dtype=int)
    shipped = calibration_difference(*logits, labels) if len(logits) == 2 else calibration_error(logits[0], labels)
    return {
        "percentile": (low, high), "basic": (2 * value - high, 2 * value - low),
        "BC": _corrected(drawn, shift, 0.0), "BCa": _corrected(drawn, shift, acceleration),
        "studentized": (value - t_high * sd[0], value - t_low * sd[0]),
        "normal": (value - folded - 1.96 * sd[0], value - folded + 1.96 * sd[0]),
        "shipped": (shipped.low, shipped.high),
    }  # fmt: skip


@lru_cache
def _weights(n: int) -> np.ndarray:
    return np.concatenate(list(draws(n, RESAMPLES, 0)))


def _by_bin(weights: np.ndarray, values: np.ndarray, number: np.ndarray, bins: int = BINS) -> np.ndarray:
    """Return weighted sums by bin over n, [resample, bin]."""
    table = np.zeros((len(values), bins))
    table[np.arange(len(values)), number] = values
    return np.asarray(weights @ table / len(values))


def _variance(
    weights: np.ndarray, gaps: list[np.ndarray], numbers: list[np.ndarray], sums: list[np.ndarray], values: np.ndarray
) -> np.ndarray:
    """Return the variance of one example's contribution to the plug-in, with the bins' signs fixed, [resample]."""
    squares = sum(weights @ gap**2 for gap in gaps) / len(gaps[0])
    if len(gaps) == 2:
        used, pair = np.unique(numbers[0] * BINS + numbers[1], return_inverse=True)
        products = _by_bin(weights, gaps[0] * gaps[1], pair, len(used))
        signs = np.sign(sums[0])[:, used // BINS] * np.sign(sums[1])[:, used % BINS]
        squares = squares - 2 * (products * signs).sum(1)
    return np.asarray(np.maximum(squares - values**2, 0.0))


def _without_one(gap: np.ndarray, number: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Return the plug-in without each example, [n]."""
    n = len(gap)
    whole = sums * n
    return np.asarray((np.abs(whole).sum() - np.abs(whole[number]) + np.abs(whole[number] - gap)) / (n - 1))


def _corrected(drawn: np.ndarray, shift: float, acceleration: float) -> tuple[float, float]:
    normal = shift + np.array([-1.96, 1.96])
    low, high = np.quantile(drawn, ndtr(shift + normal / (1 - acceleration * normal)))
    return float(low), float(high)


def _folding(gap: np.ndarray, number: np.ndarray) -> float:
    """Return the increase of the plug-in's mean by folding, if every bin's gap is normal around the observed one."""
    n = len(gap)
    count, total, squares = (np.bincount(number, weights=w, minlength=BINS) for w in (None, gap, gap**2))
    mean = np.abs(total) / n
    variance = np.maximum(squares - np.divide(total**2, count, out=np.zeros(BINS), where=count > 0), 0.0) / n**2
    sd = np.sqrt(variance)
    x = np.divide(mean, sd, out=np.full(BINS, 40.0), where=sd > 0)
    return float((2 * sd * np.exp(-x * x / 2) / np.sqrt(2 * np.pi) - 2 * mean * ndtr(-x)).sum())


def table(rows: pd.DataFrame) -> list[str]:
    """Return coverage and width of every interval, with one row per population and sample size."""
    lines = [f"| quantity | true, points | n | {' | '.join(METHODS)} |", "|" + " --- |" * (3 + len(METHODS))]
    for (quantity, true, n), cells in rows.groupby(["quantity", "true", "n"], sort=False):
        found = cells.set_index("interval").loc[list(METHODS)]
        shown = [f"{100 * c:.0f}%, {w:.1f}" for c, w in zip(found["coverage"], found["width"], strict=True)]
        lines.append(f"| {quantity} | {true:.1f} | {n:,} | {' | '.join(shown)} |")
    return lines
