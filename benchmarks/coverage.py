"""How often a 95 % interval of calibration holds the truth: simulation on populations whose error is known.

    python -m benchmarks coverage [--repetitions 1000] [--unseen]

Each row of results/coverage.csv is a cell: one population, sample size, binning and norm. The tables of
docs/statistics.md are made from that file. `--unseen` runs the second grid, of populations that nobody looked at
while the interval was made (benchmarks/unseen_populations.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.populations import Population, classes_of, pair, single, stored
from skillviz.core.calibration_error import difference_interval, error_interval


ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "statistics.md"
SIZES = (300, 600, 1821, 5000)
ERRORS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.15)
DIFFERENCES = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.081, 0.10)
CLASSES = (2, 3, 4, 6)
STORED = (
    "sst2-sentences-minilm-l6-stagewise-10646-s0", "mnli-minilm-l6-stagewise-10646-s0",
    "ag-news-minilm-l6-stagewise-10646-s0", "trec-minilm-l6-stagewise-10646-s0", "qnli-minilm-l6-stagewise-1064-s0",
    "subj-minilm-l6-movement-10646-s0",
)  # fmt: skip
LIKE = {2: STORED[0], 3: STORED[1], 4: STORED[2], 6: STORED[3]}
"""Whose stored confidences a synthetic population of so many classes may borrow."""


@dataclass(frozen=True)
class Case:
    """A population in one binning, with what it is called in the table."""

    grid: str
    quantity: str
    classes: int
    binning: str
    wanted: float
    population: Population


def development() -> Iterator[Case]:
    """The first grid: every error x size x classes x binning, over rotating shapes and kinds, and stored predictions."""
    turn = 0
    kinds = ["overconfident", "mixed sign", "one bad bin", "underconfident", "shifted", "alternating", "temperature", "wave"]
    for classes, binning, error in itertools.product(CLASSES, ("width", "mass"), ERRORS):
        shapes = ["flat", "high", "low", "sharp", "middle", LIKE[classes]]
        for _ in range(1 if error == 0 else 2):
            for attempt in range(40):
                shape, kind = shapes[(turn + attempt) % 6], kinds[(turn * 3 + attempt) % 8]
                if kind == "alternating" and binning == "mass":
                    continue  # its gap jumps at edges of equal width: see docs/statistics.md
                found = single(shape, kind, classes, error, binning)
                if found is not None:
                    yield Case("development", "error", classes, binning, error, found)
                    break
            turn += 1
    for classes, binning, difference in itertools.product(CLASSES, ("width", "mass"), DIFFERENCES):
        shapes = ["flat", "high", "low", "sharp", LIKE[classes], "high"]
        for base in (0.0, 0.03):
            for attempt in range(40):
                first, second = shapes[(turn + attempt) % 6], shapes[(turn + 2 * attempt + turn // 6) % 6]
                one, other = (kinds[(k + attempt) % 8] for k in (turn * 3, turn * 5))
                if "alternating" in (one, other) and binning == "mass":
                    continue
                alike, shared = ((0.3, 0.5), (0.9, 0.9), (0.97, 0.99))[turn % 3]
                errors = (base, base + difference)
                found = pair((first, second), (one, other), classes, errors, binning, alike, shared)
                if found is not None:
                    yield Case("development", "difference", classes, binning, -difference, found)
                    break
            turn += 1
    for run, binning in itertools.product(STORED, ("width", "mass")):
        for states in (("finetuned",), ("grafted",), ("grafted", "finetuned")):
            quantity = "difference" if len(states) == 2 else "error"
            yield Case("development", quantity, classes_of(run), binning, math.nan, stored(run, states))


def measured(case: Case, n: int, repetitions: int, seed: int) -> Iterator[dict[str, object]]:
    """The rows of a case at one sample size: one for each norm."""
    answers: dict[str, list[np.ndarray]] = {"l1": [], "l2": []}
    for sides, products in case.population.samples(n, repetitions, case.binning, seed):
        for norm, blocks in answers.items():
            ends = error_interval(sides[0], norm) if len(sides) == 1 else difference_interval(*sides, products, norm)
            blocks.append(np.stack(ends))
    for norm, blocks in answers.items():
        value, debiased, low, high = np.concatenate(blocks, axis=1)
        errors = case.population.errors(case.binning, norm)
        true = errors[0] - errors[1] if len(errors) == 2 else errors[0]
        holds = (low <= true + 1e-12) & (true <= high + 1e-12)
        shown = asdict(case) | {"population": case.population.name, "n": n, "norm": norm}
        yield shown | {
            "true": round(100 * true, 4), "repetitions": len(value), "coverage": round(float(holds.mean()), 5),
            "above": round(float((low > true + 1e-12).mean()), 5), "width": round(100 * float(np.median(high - low)), 4),
            "bias": round(100 * float((value - true).mean()), 4),
            "bias_debiased": round(100 * float((debiased - true).mean()), 4),
            "rmse": round(100 * float(np.sqrt(((value - true) ** 2).mean())), 4),
            "rmse_debiased": round(100 * float(np.sqrt(((debiased - true) ** 2).mean())), 4),
        }  # fmt: skip


def run(cases: list[Case], repetitions: int, out: Path) -> pd.DataFrame:
    """Measures every case at every size; `out` grows case by case, and one that is there is not measured again."""
    rows = pd.read_csv(out).to_dict("records") if out.is_file() else []
    have = {(r["population"], r["binning"], r["classes"], r["n"], r["quantity"], str(r["wanted"])) for r in rows}
    for number, (n, case) in enumerate(itertools.product(SIZES, cases)):
        key = (case.population.name, case.binning, case.classes, n, case.quantity, str(case.wanted))
        if key in have:
            continue
        rows += list(measured(case, n, repetitions, number))
        have.add(key)
        if number % 16 == 0:
            pd.DataFrame(rows).to_csv(out, index=False)
    pd.DataFrame(rows).to_csv(out, index=False)
    return pd.DataFrame(rows)
