"""Measure how often a 95% calibration interval contains the truth: simulation on populations with known error.

    python -m benchmarks coverage [--repetitions 1000] [--part development] [--tables]

Each row of results/coverage.csv and results/coverage_unseen.csv is a cell: one population and sample size. An
interrupted run resumes. docs/statistics.md and docs/research/coverage.md have tables of these files. The second
grid has populations that were not used while the interval was developed (benchmarks/unseen_populations.py). The third,
in coverage_later.csv, has pairs that fell short afterwards and changed the interval of differences. The fourth is drawn
at random, after that change (benchmarks/random_populations.py). Rejected alternatives are measured in
benchmarks/comparators.py, every other interval in benchmarks/other_intervals.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import comparators, other_intervals
from benchmarks.between_marks import fill
from benchmarks.populations import Population, classes_of, pair, single, stored, stored_side, two_class_logits
from benchmarks.progress import Progress
from skillviz.core.calibration_error import calibration_test, difference_interval, error_interval

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "docs" / "statistics.md", ROOT / "docs" / "research" / "coverage.md")
GRIDS = {"": "development", "_unseen": "unseen", "_later": "later", "_random": "random"}
"""The part after `coverage` in the names of the grids' files, and each grid's name in its rows."""
LEAST = 0.93
"""An interval with a cell below this falls short."""
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
"""The run whose stored confidences a synthetic population with this number of classes may use."""


@dataclass(frozen=True)
class Case:
    """A population, with its names in the table."""

    grid: str
    quantity: str
    classes: int
    wanted: float
    population: Population


def development() -> Iterator[Case]:
    """Yield the first grid: every error x classes, over rotating shapes and kinds, and stored predictions.

    `turn` chooses the shapes and kinds of a cell. Some of its values belong to cells that are not measured any more.
    """
    kinds = [
        "overconfident", "mixed sign", "one bad bin", "underconfident", "shifted", "alternating", "temperature", "wave",
    ]  # fmt: skip
    for row, classes in enumerate(CLASSES):
        shapes = ["flat", "high", "low", "sharp", "middle", LIKE[classes]]
        every = [error for error in ERRORS for _ in range(1 if error == 0 else 2)]
        for turn, error in enumerate(every, 30 * row):
            for attempt in range(40):
                shape, kind = shapes[(turn + attempt) % 6], kinds[(turn * 3 + attempt) % 8]
                found = single(shape, kind, classes, error)
                if found is not None:
                    yield Case("development", "error", classes, error, found)
                    break
    for row, classes in enumerate(CLASSES):
        shapes = ["flat", "high", "low", "sharp", LIKE[classes], "high"]
        both = itertools.product(DIFFERENCES, (0.0, 0.03))
        for turn, (difference, base) in enumerate(both, 120 + 32 * row):
            for attempt in range(40):
                first, second = shapes[(turn + attempt) % 6], shapes[(turn + 2 * attempt + turn // 6) % 6]
                one, other = (kinds[(k + attempt) % 8] for k in (turn * 3, turn * 5))
                alike, shared = ((0.3, 0.5), (0.9, 0.9), (0.97, 0.99))[turn % 3]
                errors = (base, base + difference)
                found = pair((first, second), (one, other), classes, errors, alike, shared)
                if found is not None:
                    yield Case("development", "difference", classes, -difference, found)
                    break
    for run in STORED:
        for states in (("finetuned",), ("grafted",), ("grafted", "finetuned")):
            quantity = "difference" if len(states) == 2 else "error"
            yield Case("development", quantity, classes_of(run), math.nan, stored(run, states))


def later() -> Iterator[Case]:
    """Yield the third grid: one model is calibrated, the other's gap alternates from bin to bin, and the outcomes of
    the two are independent."""
    shapes = (("flat", "flat"), ("flat", "high"), ("high", "flat"), ("low", "flat"), ("sharp", "flat"))
    for classes, difference, both in itertools.product((2, 3, 6), (0.045, 0.07, 0.10), shapes):
        found = pair(both, ("shifted", "alternating"), classes, (0.0, difference), 0.0, 0.0)
        if found is not None:
            yield Case("later", "difference", classes, -difference, found)


def measured(case: Case, n: int, repetitions: int, seed: int) -> dict[str, object]:
    """Return the row of a case at one sample size."""
    answers = []
    for sides, products in case.population.samples(n, repetitions, seed):
        answers.append(np.stack(difference_interval(*sides, products) if products.size else error_interval(*sides)))
    value, debiased, low, high = np.concatenate(answers, axis=1)
    errors = case.population.errors()
    true = errors[0] - errors[1] if len(errors) == 2 else errors[0]
    return asdict(case) | {
        "population": case.population.name, "n": n, "seed": seed,
        "true": round(100 * true, 4), "repetitions": len(value),
        "coverage": round(float(((low <= true + 1e-12) & (true <= high + 1e-12)).mean()), 5),
        "above": round(float((low > true + 1e-12).mean()), 5),
        "width": round(100 * float(np.median(high - low)), 4),
        "bias": round(100 * float((value - true).mean()), 4),
        "bias_debiased": round(100 * float((debiased - true).mean()), 4),
        "rmse": round(100 * float(np.sqrt(((value - true) ** 2).mean())), 4),
        "rmse_debiased": round(100 * float(np.sqrt(((debiased - true) ** 2).mean())), 4),
    }  # fmt: skip


def run(cases: list[Case], repetitions: int, out: Path) -> pd.DataFrame:
    """Measure every case at every size; `out` is extended case by case, and existing cases are not measured again."""
    rows = pd.read_csv(out).to_dict("records") if out.is_file() else []
    have = {(r["population"], r["classes"], r["n"], r["quantity"], str(r["wanted"])) for r in rows}
    todo = {}
    for number, (n, case) in enumerate(itertools.product(SIZES, cases)):
        key = (case.population.name, case.classes, n, case.quantity, str(case.wanted))
        if key not in have:
            todo.setdefault(key, (case, n, number))
    progress = Progress(out.name, len(todo))
    for case, n, number in todo.values():
        rows.append(measured(case, n, repetitions, number))
        if progress.step() % 16 == 0:
            pd.DataFrame(rows).to_csv(out, index=False)
    pd.DataFrame(rows).to_csv(out, index=False)
    progress.end()
    return pd.DataFrame(rows)


def size_of_test(repetitions: int, out: Path) -> pd.DataFrame:
    """Return how often the test of calibration rejects at 5%, for several true errors; a stored result is reused."""
    if out.is_file():
        return pd.read_csv(out)
    graft = stored_side(STORED[0], "grafted")
    rows = []
    for shift, n in itertools.product((0.0, 0.02, 0.05), (300, 1821)):
        random = np.random.default_rng(n)
        rejected = []
        for seed in range(repetitions):
            drawn = random.integers(0, len(graft.sure), n)
            sure = graft.sure[drawn]
            logits = two_class_logits(sure, random.random(n) < sure - shift)
            test = calibration_test(logits, np.zeros(n, dtype=int), draws=199, seed=seed)
            rejected.append(test.p_value <= 0.05)
        rows.append({"error": 100 * shift, "n": n, "repetitions": repetitions, "rejected": float(np.mean(rejected))})
    pd.DataFrame(rows).to_csv(out, index=False)
    return pd.DataFrame(rows)


def summary(rows: pd.DataFrame) -> list[str]:
    """Return one line for each quantity: the number of cells, and their coverage."""
    lines = [
        "| quantity | cells | under 93% | lowest coverage | 5% of cells below | median | median width, points |",
        "|" + " --- |" * 7,
    ]
    for quantity, cells in rows.groupby("quantity"):
        coverage = cells["coverage"]
        lines.append(
            f"| {quantity} | {len(cells):,} | {(coverage < LEAST).sum()} | "
            f"{_percent(coverage.min())} | "
            f"{_percent(coverage.quantile(0.05))} | {_percent(coverage.median())} | {cells['width'].median():.1f} |"
        )
    return lines


def by_error(rows: pd.DataFrame, quantity: str) -> list[str]:
    """Return lowest coverage and median width, by true error (or difference) and sample size."""
    cells = rows[(rows["quantity"] == quantity) & rows["wanted"].notna()]
    sizes = sorted(cells["n"].unique())
    lines = [
        f"| true {quantity}, points | " + " | ".join(f"n = {n:,}" for n in sizes) + " |",
        "| --- |" + " --- |" * len(sizes),
    ]
    for wanted, group in cells.groupby("wanted", sort=False):
        parts = [group[group["n"] == n] for n in sizes]
        shown = [f"{_percent(p['coverage'].min())}, {p['width'].median():.1f}" if len(p) else "" for p in parts]
        lines.append(f"| {100 * wanted + 0.0:.1f} | " + " | ".join(shown) + " |")
    return lines


def worst(rows: pd.DataFrame, count: int = 6) -> list[str]:
    """Return the cells of the lowest coverage."""
    lines = ["| quantity | population | classes | n | true, points | coverage |", "|" + " --- |" * 6]
    for _, cell in rows.nsmallest(count, "coverage").iterrows():
        name = str(cell["population"]).replace("-minilm-l6-stagewise-10646-s0", "")
        lines.append(
            f"| {cell['quantity']} | {name} | {cell['classes']} | {cell['n']:,} | {cell['true']:.1f} | "
            f"{_percent(cell['coverage'])} |"
        )
    return lines


def bias(rows: pd.DataFrame, quantity: str) -> list[str]:
    """Return mean bias and error of the plug-in and of `debiased`, by true error or difference."""
    cells = rows[(rows["quantity"] == quantity) & rows["wanted"].notna()]
    lines = [
        f"| true {quantity}, points | bias of the plug-in | of `debiased` | root mean square error of the plug-in "
        "| of `debiased` |",
        "|" + " --- |" * 5,
    ]
    for wanted, group in cells.groupby("wanted", sort=False):
        means = group[["bias", "bias_debiased", "rmse", "rmse_debiased"]].mean()
        lines.append(f"| {100 * wanted + 0.0:.1f} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    return lines


PICKED = "picked on the same examples; the page's interval is for all 61"
SKEWED = "single large losses decide"
FEW = "300 examples: a bootstrap is a little narrow"
WHY = {
    "nll": FEW,
    "brier": FEW,
    "nll, difference": FEW,
    "nll, difference on a slice": f"150 examples: {SKEWED}",
    "perplexity": f"300 uneven references: {SKEWED}",
    "perplexity, difference": f"300 uneven references: {SKEWED}",
    "ECE less scaled, the best temperature": "the validation set is not resampled",
    "best of 61, picked on test": PICKED,
    "mean IoU": "three to five regions are few, more so of different settings",
    "accuracy, difference, mean over seeds": "few seeds, uneven or skewed",
    "nll, mean over seeds": SKEWED,
    "nll, difference, mean over seeds": SKEWED,
    "mean over runs with different settings": "few runs miss a group of settings",
}
"""The reason why an interval has cells under LEAST, by the names of `named`."""
UNEXPLAINED = "not explained yet"


def named(stored: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """`interval` (its name in the table of intervals that fall short) and `coverage` of every cell of every part."""
    grids = [
        rows.assign(interval="calibration " + rows["quantity"])
        for name in GRIDS
        if (rows := stored.get(name)) is not None
    ]
    others = []
    if (rows := stored.get("_other")) is not None:
        over_seeds = rows["detail"].str.match(r"\d seeds")
        quantity = rows["quantity"].str.replace(" independent", "")
        for kind in (other_intervals.CHANGE, other_intervals.APART):
            quantity = quantity.str.replace(kind, other_intervals.DIFFERENCE)
        name = quantity.where(~over_seeds, quantity + ", mean over seeds")
        mixed = rows["population"].str.startswith("stored") & over_seeds
        others = [rows.assign(interval=name.mask(mixed, "mean over runs with different settings"))]
    return pd.concat([part[["interval", "coverage"]] for part in (*grids, *others)], ignore_index=True)


def short(stored: dict[str, pd.DataFrame]) -> list[str]:
    """Return one line for each interval with a cell under LEAST, with the reason."""
    lines = ["| interval | lowest coverage | why |", "|" + " --- |" * 3]
    for name, coverage in named(stored).groupby("interval", sort=False)["coverage"]:
        if coverage.min() < LEAST:
            lines.append(f"| {name} | {_percent(coverage.min())} | {WHY.get(str(name), UNEXPLAINED)} |")
    return lines


def all_grids(stored: dict[str, pd.DataFrame]) -> list[str]:
    """Return the coverage in each grid, one line for each quantity."""
    lines = [
        "| calibration | lowest, first grid | second | third | fourth | cells under 93% | median "
        "| median width, points |",
        "|" + " --- |" * 8,
    ]
    for quantity, cells in pd.concat([stored[name] for name in GRIDS]).groupby("quantity"):
        lowest = [cells.loc[cells["grid"] == grid, "coverage"].min() for grid in GRIDS.values()]
        under = f"{(cells['coverage'] < LEAST).sum()} of {len(cells)}"
        told = " | ".join("" if pd.isna(share) else _percent(share) for share in lowest)
        lines.append(
            f"| {quantity} | {told} | {under} | "
            f"{_percent(cells['coverage'].median())} | {cells['width'].median():.1f} |"
        )
    return lines


def results_of(results: Path = RESULTS) -> dict[str, pd.DataFrame]:
    """Return the rows of each existing file of results, by the part after `coverage` in its name."""
    paths = {name: results / f"coverage{name}.csv" for name in (*GRIDS, "_tried", "_other", "_test")}
    return {name: pd.read_csv(path) for name, path in paths.items() if path.is_file()}


def tables(results: Path = RESULTS) -> dict[str, list[str]]:
    """Return the content between the marks of PAGES, by the name of the mark, from the existing files."""
    stored = results_of(results)
    found: dict[str, list[str]] = {}
    if (first := stored.get("")) is not None:
        found |= {"development": summary(first), "errors": by_error(first, "error")}
        found |= {"differences": by_error(first, "difference"), "worst": worst(first)}
        found |= {"bias": bias(first, "error"), "bias of differences": bias(first, "difference")}
    if (second := stored.get("_unseen")) is not None:
        found |= {"unseen": summary(second), "unseen worst": worst(second)}
    if stored.keys() >= GRIDS.keys():
        found["all grids"] = all_grids(stored)
    if (rows := stored.get("_random")) is not None:
        found |= {"random": summary(rows), "random worst": worst(rows, 3)}
    if (rows := stored.get("_later")) is not None:
        found |= {"later": summary(rows), "later worst": worst(rows, 3)}
    if (rows := stored.get("_tried")) is not None:
        found["tried"] = comparators.table(rows)
    if (rows := stored.get("_other")) is not None:
        found |= {"others": other_intervals.table(rows), "seeds": other_intervals.seeds_table(rows)}
        found["unseen seeds"] = other_intervals.unseen_seeds_table(rows)
        found["short"] = short(stored)
    if (rows := stored.get("_test")) is not None:
        lines = ["| true error, points | n | rejected at 5% |", "|" + " --- |" * 3]
        for _, row in rows.iterrows():
            lines.append(f"| {row['error']:.0f} | {row['n']:,.0f} | {_percent(row['rejected'])} |")
        found["test"] = lines
    return found


def written(results: Path = RESULTS) -> tuple[Path, ...]:
    """Write every table between its marks, and return the pages; a mark without results keeps its content.

    Tables of another folder of results go to a page in that folder.
    """
    found = tables(results)
    if results.resolve() != RESULTS:
        page = results / "coverage.md"
        parts = [f"## {name}\n\n" + "\n".join(lines) for name, lines in found.items()]
        page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
        return (page,)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        own = {name: lines for name, lines in found.items() if f"<!-- {name}: written by " in text}
        fill(page, own, "python -m benchmarks coverage")
    return PAGES


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"
