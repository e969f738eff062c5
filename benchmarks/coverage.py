"""Measure how often a 95% calibration interval contains the truth: simulation on populations with known error.

    python -m benchmarks coverage [--repetitions 1000] [--part development] [--tables]

Each row of results/coverage.csv and results/coverage_unseen.csv is a cell: one population, sample size, binning and
norm. An interrupted run resumes. docs/statistics.md and docs/research/coverage.md have tables of these files. The
second grid has populations that were not used while the interval was developed (benchmarks/unseen_populations.py). The
third, in coverage_later.csv, has pairs that fell short afterwards and changed the interval of differences. The fourth
is drawn at random, after that change (benchmarks/random_populations.py), and the fifth, of equal mass alone, after the
noise of the edges was added. In addition, coverage_alternating.csv has populations on which equal mass fails. Rejected
alternatives are measured in benchmarks/comparators.py, every other interval in benchmarks/other_intervals.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import comparators, other_intervals
from benchmarks.between_marks import fill
from benchmarks.populations import (
    ATOMS,
    Population,
    Side,
    classes_of,
    pair,
    single,
    stored,
    stored_side,
    two_class_logits,
)
from benchmarks.progress import Progress
from skillviz.core.bins import BINS
from skillviz.core.calibration_error import calibration_test, difference_interval, error_interval

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "docs" / "statistics.md", ROOT / "docs" / "research" / "coverage.md")
GRIDS = {"": "development", "_unseen": "unseen", "_later": "later", "_random": "random", "_edges": "edges"}
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
    """A population in one binning, with its names in the table."""

    grid: str
    quantity: str
    classes: int
    binning: str
    wanted: float
    population: Population


def development() -> Iterator[Case]:
    """Yield the first grid: every error x classes x binning, over rotating shapes and kinds, and stored predictions."""
    turn = 0
    kinds = [
        "overconfident", "mixed sign", "one bad bin", "underconfident", "shifted", "alternating", "temperature", "wave",
    ]  # fmt: skip
    for classes, binning, error in itertools.product(CLASSES, ("width", "mass"), ERRORS):
        shapes = ["flat", "high", "low", "sharp", "middle", LIKE[classes]]
        for _ in range(1 if error == 0 else 2):
            for attempt in range(40):
                shape, kind = shapes[(turn + attempt) % 6], kinds[(turn * 3 + attempt) % 8]
                if kind == "alternating" and binning == "mass":
                    continue  # gaps jump at edges of equal width here, of equal mass in `alternating`
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


def later() -> Iterator[Case]:
    """Yield the third grid: one model is calibrated, the other's gap alternates from bin to bin, and the outcomes of
    the two are independent."""
    shapes = (("flat", "flat"), ("flat", "high"), ("high", "flat"), ("low", "flat"), ("sharp", "flat"))
    for classes, difference, both in itertools.product((2, 3, 6), (0.045, 0.07, 0.10), shapes):
        found = pair(both, ("shifted", "alternating"), classes, (0.0, difference), "width", 0.0, 0.0)
        if found is not None:
            yield Case("later", "difference", classes, "width", -difference, found)


def alternating() -> Iterator[Case]:
    """The populations on which equal mass may fail: gaps that change sign at the population's edges, or between them.

    This is the reverse of equal width's `alternating` in the first grid.
    """
    place = (np.arange(ATOMS) + 0.5) / ATOMS
    sure = 0.5 + 0.48 * place
    for gap, (name, sign) in itertools.product((0.10, 0.15), {
        "at every edge": np.where(np.floor(BINS * place) % 2 == 0, 1.0, -1.0),
        "at every second edge": np.where(np.floor(BINS * place / 2) % 2 == 0, 1.0, -1.0),
        "at every third edge": np.where(np.floor(BINS * place / 3) % 2 == 0, 1.0, -1.0),
        "smoothly, every second bin": np.sin(np.pi * BINS * place),
        "in the middle of every bin": np.where(np.floor(BINS * place + 0.5) % 2 == 0, 1.0, -1.0),
        "twice": np.where((place > 1 / 3) & (place < 2 / 3), -1.0, 1.0),
    }.items()):  # fmt: skip
        side = Side(sure, np.clip(sure - gap * sign, 0.0, 1.0))
        shown = Population(f"{100 * gap:.0f} points, sign changes {name}", (side,))
        for binning in ("mass", "width"):
            yield Case("alternating", "error", 2, binning, round(shown.errors(binning, "l1")[0], 6), shown)


def measured(case: Case, n: int, repetitions: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield the rows of a case at one sample size, one for each norm.

    With equal mass, `as_given` is the coverage of an interval that ignores the noise of the sample's edges.
    """
    answers: dict[str, list[np.ndarray]] = {"l1": [], "l2": []}
    as_given: dict[str, list[np.ndarray]] = {"l1": [], "l2": []}
    for sides, products, noise in case.population.samples(n, repetitions, case.binning, seed):
        for norm in answers:
            if len(sides) == 1:
                interval = partial(error_interval, sides[0], norm)
            else:
                interval = partial(difference_interval, *sides, products, norm)
            answers[norm].append(np.stack(interval(noise[norm])))
            as_given[norm].append(np.stack(interval()))
    for norm, blocks in answers.items():
        value, debiased, low, high = np.concatenate(blocks, axis=1)
        errors = case.population.errors(case.binning, norm)
        true = errors[0] - errors[1] if len(errors) == 2 else errors[0]
        _, _, *given = np.concatenate(as_given[norm], axis=1)

        def holds(low: np.ndarray, high: np.ndarray, true: float = true) -> float:
            return round(float(((low <= true + 1e-12) & (true <= high + 1e-12)).mean()), 5)

        shown = asdict(case) | {"population": case.population.name, "n": n, "norm": norm}
        yield shown | {
            "true": round(100 * true, 4), "repetitions": len(value), "coverage": holds(low, high),
            "above": round(float((low > true + 1e-12).mean()), 5),
            "width": round(100 * float(np.median(high - low)), 4),
            "bias": round(100 * float((value - true).mean()), 4),
            "bias_debiased": round(100 * float((debiased - true).mean()), 4),
            "rmse": round(100 * float(np.sqrt(((value - true) ** 2).mean())), 4),
            "rmse_debiased": round(100 * float(np.sqrt(((debiased - true) ** 2).mean())), 4),
            "as_given": holds(*given) if case.binning == "mass" else math.nan,
        }  # fmt: skip


def run(cases: list[Case], repetitions: int, out: Path) -> pd.DataFrame:
    """Measure every case at every size; `out` is extended case by case, and existing cases are not measured again."""
    rows = pd.read_csv(out).to_dict("records") if out.is_file() else []
    have = {(r["population"], r["binning"], r["classes"], r["n"], r["quantity"], str(r["wanted"])) for r in rows}
    todo = {}
    for number, (n, case) in enumerate(itertools.product(SIZES, cases)):
        key = (case.population.name, case.binning, case.classes, n, case.quantity, str(case.wanted))
        if key not in have:
            todo.setdefault(key, (case, n, number))
    progress = Progress(out.name, len(todo))
    for case, n, number in todo.values():
        rows += list(measured(case, n, repetitions, number))
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
    """Return one line for each quantity, norm and binning: the number of cells, and their coverage."""
    lines = [
        "| quantity | norm | bins | cells | under 93% | lowest coverage | 5% of cells below | median "
        "| median width, points |",
        "|" + " --- |" * 9,
    ]
    for (quantity, norm, binning), cells in rows.groupby(["quantity", "norm", "binning"]):
        coverage = cells["coverage"]
        lines.append(
            f"| {quantity} | {norm} | equal {binning} | {len(cells):,} | {(coverage < LEAST).sum()} | "
            f"{_percent(coverage.min())} | "
            f"{_percent(coverage.quantile(0.05))} | {_percent(coverage.median())} | {cells['width'].median():.1f} |"
        )
    return lines


def by_error(rows: pd.DataFrame, quantity: str) -> list[str]:
    """Return lowest coverage and median width in l1, by true error (or difference) and sample size."""
    cells = rows[(rows["quantity"] == quantity) & (rows["norm"] == "l1") & rows["wanted"].notna()]
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
    """Return the cells of the lowest coverage in l1."""
    lines = ["| quantity | population | classes | bins | n | true, points | coverage |", "|" + " --- |" * 7]
    for _, cell in rows[rows["norm"] == "l1"].nsmallest(count, "coverage").iterrows():
        name = str(cell["population"]).replace("-minilm-l6-stagewise-10646-s0", "")
        lines.append(
            f"| {cell['quantity']} | {name} | {cell['classes']} | equal {cell['binning']} | {cell['n']:,} | "
            f"{cell['true']:.1f} | {_percent(cell['coverage'])} |"
        )
    return lines


def bias(rows: pd.DataFrame, quantity: str) -> list[str]:
    """Return mean bias and error of the plug-in and of `debiased` in l1, by true error or difference."""
    cells = rows[(rows["quantity"] == quantity) & (rows["norm"] == "l1") & rows["wanted"].notna()]
    lines = [
        f"| true {quantity}, points | bias of the plug-in | of `debiased` | root mean square error of the plug-in "
        "| of `debiased` |",
        "|" + " --- |" * 5,
    ]
    for wanted, group in cells.groupby("wanted", sort=False):
        means = group[["bias", "bias_debiased", "rmse", "rmse_debiased"]].mean()
        lines.append(f"| {100 * wanted + 0.0:.1f} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    return lines


SIGNS = "gaps whose sign changes from bin to bin; use equal width"
PICKED = "picked on the same examples; the page's interval is for all 61"
SKEWED = "single large losses decide"
FEW = "300 examples: a bootstrap is a little narrow"
WHY = {
    "calibration error, l1, equal mass": SIGNS,
    "calibration error, l2, equal mass": SIGNS,
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
        rows.assign(interval="calibration " + rows["quantity"] + ", " + rows["norm"] + ", equal " + rows["binning"])
        for name in (*GRIDS, "_alternating")
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
    """Return the coverage in l1 in each grid, one line for each quantity and binning."""
    lines = [
        "| calibration | bins | lowest, first grid | second | third | fourth | fifth | cells under 93% "
        "| median | median width, points |",
        "|" + " --- |" * 10,
    ]
    every = pd.concat([stored[name] for name in GRIDS])
    for (quantity, binning), cells in every[every["norm"] == "l1"].groupby(["quantity", "binning"]):
        lowest = [cells.loc[cells["grid"] == grid, "coverage"].min() for grid in GRIDS.values()]
        under = f"{(cells['coverage'] < LEAST).sum()} of {len(cells)}"
        told = " | ".join("" if pd.isna(share) else _percent(share) for share in lowest)
        lines.append(
            f"| {quantity} | equal {binning} | {told} | {under} | "
            f"{_percent(cells['coverage'].median())} | {cells['width'].median():.1f} |"
        )
    return lines


def edges_table(rows: pd.DataFrame) -> list[str]:
    """Return cells in l1 that fall short if edges are taken as given, and their coverage with the edges' noise."""
    lines = ["| quantity | population | n | edges as given | with their noise |", "|" + " --- |" * 5]
    for _, cell in rows[(rows["norm"] == "l1") & (rows["as_given"] < LEAST)].iterrows():
        shown = f"{_percent(cell['as_given'])} | {_percent(cell['coverage'])}"
        lines.append(f"| {cell['quantity']} | {cell['population']} | {cell['n']:,} | {shown} |")
    return lines


def alternating_table(rows: pd.DataFrame) -> list[str]:
    """Return the coverage in l1 by sample size, a line per population; equal mass, and the lowest of equal width."""
    own = rows[rows["norm"] == "l1"]
    sizes = sorted(own["n"].unique())
    lines = [
        "| gap | true, points | " + " | ".join(f"n = {n:,}" for n in sizes) + " | equal width, lowest |",
        "| --- |" + " --- |" * (len(sizes) + 2),
    ]
    for name, cells in own.groupby("population", sort=False):
        mass, width = (cells[cells["binning"] == binning] for binning in ("mass", "width"))
        shown = " | ".join(_percent(float(mass.loc[mass["n"] == n, "coverage"].iloc[0])) for n in sizes)
        lines.append(f"| {name} | {mass['true'].iloc[0]:.1f} | {shown} | {_percent(width['coverage'].min())} |")
    return lines


def results_of(results: Path = RESULTS) -> dict[str, pd.DataFrame]:
    """Return the rows of each existing file of results, by the part after `coverage` in its name."""
    paths = {name: results / f"coverage{name}.csv" for name in (*GRIDS, "_alternating", "_tried", "_other", "_test")}
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
        found["edges"] = edges_table(pd.concat([stored[name] for name in GRIDS]))
    if (rows := stored.get("_random")) is not None:
        found |= {"random": summary(rows), "random worst": worst(rows, 3)}
    if (rows := stored.get("_later")) is not None:
        found |= {"later": summary(rows), "later worst": worst(rows, 3)}
    if (rows := stored.get("_edges")) is not None:
        found |= {"fifth": summary(rows), "fifth worst": worst(rows, 3)}
    if (rows := stored.get("_alternating")) is not None:
        found["alternating"] = alternating_table(rows)
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
