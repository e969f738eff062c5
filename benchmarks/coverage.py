"""Measure how often a 95% interval contains the truth: simulation on populations with known values.

    python -m benchmarks coverage [--repetitions 1000] [--part development] [--tables]

Each row of results/coverage*.csv is a cell: one population and sample size. An interrupted run resumes.
docs/statistics.md and docs/research/coverage.md have tables of these files. The populations of the calibration
intervals are benchmarks/grids.py; rejected alternatives are measured in benchmarks/comparators.py, every other interval
in benchmarks/other_intervals.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from benchmarks import beyond, comparators, gain, grids, other_intervals
from benchmarks.frame import RESULTS, ROOT, Cells, Rows, fill, measure
from benchmarks.grids import Case
from benchmarks.populations import stored_side, two_class_logits
from skillviz.core.calibration_error import calibration_test, difference_interval, error_interval
from skillviz.core.formats import markdown_table

PAGES = (ROOT / "docs" / "statistics.md", ROOT / "docs" / "research" / "coverage.md")
GRIDS: dict[str, tuple[str, Callable[[], Iterator[Case]]]] = {
    "": ("development", grids.development), "_unseen": ("unseen", grids.unseen), "_later": ("later", grids.later),
    "_random": ("random", grids.drawn),
}  # fmt: skip
"""By the part after `coverage` in the names of their files: each grid's name in its rows, and its cells."""
PARTS = (*(name for name, _ in GRIDS.values()), "tried", "others", "beyond", "gain")
KEY = ["population", "classes", "n", "quantity", "wanted"]
LEAST = 0.93
"""An interval with a cell below this falls short."""
SIZES = (300, 600, 1821, 5000)


def measured(case: Case, n: int, repetitions: int, seed: int) -> list[dict[str, object]]:
    """Return the row of a case at one sample size."""
    answers = []
    for sides, products in case.population.samples(n, repetitions, seed):
        answers.append(np.stack(difference_interval(*sides, products) if products.size else error_interval(*sides)))
    value, debiased, low, high = np.concatenate(answers, axis=1)
    true = case.population.true()
    return [asdict(case) | {
        "population": case.population.name, "n": n, "seed": seed,
        "true": round(100 * true, 4), "repetitions": len(value),
        "coverage": round(float(((low <= true + 1e-12) & (true <= high + 1e-12)).mean()), 5),
        "above": round(float((low > true + 1e-12).mean()), 5),
        "width": round(100 * float(np.median(high - low)), 4),
        "bias": round(100 * float((value - true).mean()), 4),
        "bias_debiased": round(100 * float((debiased - true).mean()), 4),
        "rmse": round(100 * float(np.sqrt(((value - true) ** 2).mean())), 4),
        "rmse_debiased": round(100 * float(np.sqrt(((debiased - true) ** 2).mean())), 4),
    }]  # fmt: skip


def cells(cases: Iterable[Case], repetitions: int) -> Cells:
    """Yield every case at every size, with the function for its row."""
    for seed, (n, case) in enumerate(itertools.product(SIZES, list(cases))):
        values = case.population.name, case.classes, n, case.quantity, case.wanted
        yield dict(zip(KEY, values, strict=True)), partial(measured, case, n, repetitions, seed)


def rejections(repetitions: int) -> Cells:
    """Yield the cells of the test of calibration: how often it rejects at 5%, for several true errors."""
    for shift, n in itertools.product((0.0, 0.02, 0.05), (300, 1821)):
        yield {"error": 100 * shift, "n": n}, partial(rejected, shift, n, repetitions)


def rejected(shift: float, n: int, repetitions: int) -> list[dict[str, object]]:
    """Return the row of one cell of the test."""
    random, graft, count = np.random.default_rng(n), stored_side(grids.STORED[0], "grafted"), 0
    for seed in range(repetitions):
        sure = graft.sure[random.integers(0, len(graft.sure), n)]
        logits = two_class_logits(sure, random.random(n) < sure - shift)
        count += calibration_test(logits, np.zeros(n, dtype=int), draws=199, seed=seed).p_value <= 0.05
    return [{"error": 100 * shift, "n": n, "repetitions": repetitions, "rejected": count / repetitions}]


def percent(share: float) -> str:
    """Return a share in percent; empty if it is missing."""
    return "" if pd.isna(share) else f"{100 * share:.1f}%"


def summary(rows: pd.DataFrame) -> list[str]:
    """Return one line for each quantity: the number of cells, and their coverage."""
    head = ("quantity", "cells", "under 93%", "lowest coverage", "5% of cells below", "median", "median width, points")
    return markdown_table(head, (
        (str(quantity), f"{len(cells):,}", str((cells["coverage"] < LEAST).sum()),
         *map(percent, cells["coverage"].quantile([0, 0.05, 0.5])), f"{cells['width'].median():.1f}")
        for quantity, cells in rows.groupby("quantity")
    ))  # fmt: skip


def by_error(rows: pd.DataFrame, quantity: str) -> list[str]:
    """Return lowest coverage and median width, by true error (or difference) and sample size."""
    cells = rows[(rows["quantity"] == quantity) & rows["wanted"].notna()]
    sizes = sorted(cells["n"].unique())

    def shown(found: pd.DataFrame) -> str:
        return f"{percent(found['coverage'].min())}, {found['width'].median():.1f}" if len(found) else ""

    return markdown_table((f"true {quantity}, points", *(f"n = {n:,}" for n in sizes)), (
        (f"{100 * wanted + 0.0:.1f}", *(shown(group[group["n"] == n]) for n in sizes))
        for wanted, group in cells.groupby("wanted", sort=False)
    ))  # fmt: skip


def worst(rows: pd.DataFrame, count: int = 6) -> list[str]:
    """Return the cells of the lowest coverage."""
    return markdown_table(("quantity", "population", "classes", "n", "true, points", "coverage"), (
        (cell["quantity"], cell["population"].replace("-minilm-l6-stagewise-10646-s0", ""), str(cell["classes"]),
         f"{cell['n']:,}", f"{cell['true']:.1f}", percent(cell["coverage"]))
        for cell in rows.nsmallest(count, "coverage").to_dict("records")
    ))  # fmt: skip


def bias(rows: pd.DataFrame, quantity: str) -> list[str]:
    """Return mean bias and error of the plug-in and of `debiased`, by true error or difference."""
    means = rows[(rows["quantity"] == quantity) & rows["wanted"].notna()].groupby("wanted", sort=False)
    head = (f"true {quantity}, points", "bias of the plug-in", "of `debiased`", "root mean square error of the plug-in",
            "of `debiased`")  # fmt: skip
    return markdown_table(head, (
        (f"{100 * wanted + 0.0:.1f}", *(f"{mean:.2f}" for mean in of))
        for wanted, *of in means[["bias", "bias_debiased", "rmse", "rmse_debiased"]].mean().itertuples(name=None)
    ))  # fmt: skip


PICKED = "picked on the same examples; the page's interval is for all 61"
SKEWED = "single large losses decide"
UNEVEN = "few seeds, uneven"
FEW = "300 examples: a bootstrap is a little narrow"
WHY = {
    "nll": FEW,
    "brier": FEW,
    "nll, difference": FEW,
    "AURC, difference": FEW,
    "nll, difference on a slice": f"150 examples: {SKEWED}",
    "perplexity": f"300 uneven references: {SKEWED}",
    "perplexity, difference": f"300 uneven references: {SKEWED}",
    "ECE less scaled, the best temperature": "the validation set is not resampled",
    "best of 61, picked on test": PICKED,
    "mean IoU": "three to five regions are few, more so of different settings",
    "accuracy, mean over seeds": UNEVEN,
    "accuracy, difference, mean over seeds": UNEVEN,
    "ECE, mean over seeds": UNEVEN,
    "ECE, difference, mean over seeds": UNEVEN,
    "nll, mean over seeds": SKEWED,
    "nll, difference, mean over seeds": SKEWED,
    "mean over runs with different settings": "few runs miss a group of settings",
}
"""The reason why an interval has cells under LEAST, by the names of `named`."""
UNEXPLAINED = "not explained yet"


def named(stored: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """`interval` (its name in the table of intervals that fall short) and `coverage` of every cell of every part."""
    parts = [
        stored[name].assign(interval="calibration " + stored[name]["quantity"]) for name in GRIDS if name in stored
    ]
    if (rows := stored.get("_other")) is not None:
        over_seeds = rows["detail"].str.match(r"\d seeds")
        quantity = rows["quantity"].str.replace(" independent", "")
        for kind in (other_intervals.CHANGE, other_intervals.APART):
            quantity = quantity.str.replace(kind, other_intervals.DIFFERENCE)
        name = quantity.where(~over_seeds, quantity + ", mean over seeds")
        mixed = (rows["population"] == other_intervals.MIXED) & over_seeds
        parts.append(rows.assign(interval=name.mask(mixed, "mean over runs with different settings")))
    return pd.concat([part[["interval", "coverage"]] for part in parts], ignore_index=True)


def short(stored: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return one line for each interval with a cell under LEAST, with the reason."""
    lowest = named(stored).groupby("interval", sort=False)["coverage"].min()
    return markdown_table(("interval", "lowest coverage", "why"), (
        (str(name), percent(coverage), WHY.get(str(name), UNEXPLAINED))
        for name, coverage in lowest.items() if coverage < LEAST
    ))  # fmt: skip


def all_grids(rows: pd.DataFrame) -> list[str]:
    """Return the coverage in each grid, one line for each quantity."""
    head = ("calibration", "lowest, first grid", "second", "third", "fourth", "cells under 93%", "median",
            "median width, points")  # fmt: skip
    return markdown_table(head, (
        (str(quantity), *(percent(cells.loc[cells["grid"] == grid, "coverage"].min()) for grid, _ in GRIDS.values()),
         f"{(cells['coverage'] < LEAST).sum()} of {len(cells)}", percent(cells["coverage"].median()),
         f"{cells['width'].median():.1f}")
        for quantity, cells in rows.groupby("quantity")
    ))  # fmt: skip


def tests(rows: pd.DataFrame) -> list[str]:
    """Return how often the test of calibration rejects."""
    return markdown_table(("true error, points", "n", "rejected at 5%"), (
        (f"{row['error']:.0f}", f"{row['n']:,.0f}", percent(row["rejected"])) for row in rows.to_dict("records")
    ))  # fmt: skip


TABLES: dict[str, tuple[str, Callable[[pd.DataFrame], list[str]]]] = {
    "development": ("", summary), "errors": ("", partial(by_error, quantity="error")),
    "differences": ("", partial(by_error, quantity="difference")), "worst": ("", worst),
    "bias": ("", partial(bias, quantity="error")), "bias of differences": ("", partial(bias, quantity="difference")),
    "unseen": ("_unseen", summary), "unseen worst": ("_unseen", worst),
    "random": ("_random", summary), "random worst": ("_random", partial(worst, count=3)),
    "later": ("_later", summary), "later worst": ("_later", partial(worst, count=3)),
    "tried": ("_tried", comparators.table), "others": ("_other", other_intervals.table),
    "seeds": ("_other", other_intervals.seeds_table), "unseen seeds": ("_other", other_intervals.unseen_seeds_table),
    "test": ("_test", tests), "beyond": ("_beyond", beyond.table), "gain": ("_gain", gain.table),
}  # fmt: skip
"""The tables of one file, by the names of their marks: the part of the file's name, and the function for the lines."""


def results_of(results: Path = RESULTS) -> dict[str, pd.DataFrame]:
    """Return the rows of each existing file of results, by the part after `coverage` in its name."""
    paths = {name: results / f"coverage{name}.csv" for name in (*GRIDS, *dict(TABLES.values()))}
    return {name: pd.read_csv(path) for name, path in paths.items() if path.is_file()}


def tables(stored: Mapping[str, pd.DataFrame]) -> dict[str, list[str]]:
    """Return the content between the marks of PAGES, by the name of the mark, from the existing files."""
    found = {name: make(stored[file]) for name, (file, make) in TABLES.items() if file in stored}
    if stored.keys() >= GRIDS.keys():
        found["all grids"] = all_grids(pd.concat([stored[name] for name in GRIDS]))
    return found | ({"short": short(stored)} if "_other" in stored else {})


def written(results: Path) -> Sequence[Path]:
    """Write every table between its marks, and return the pages; a mark without results keeps its content.

    Tables of another folder of results go to a page in that folder.
    """
    found = tables(results_of(results))
    if results.resolve() != RESULTS:
        page = results / "coverage.md"
        page.write_text("".join(f"## {name}\n\n" + "\n".join(lines) + "\n\n" for name, lines in found.items()))
        return (page,)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        own = {name: lines for name, lines in found.items() if f"<!-- {name}: written by " in text}
        fill(page, own, "python -m benchmarks coverage")
    return PAGES


def main(
    repetitions: Annotated[int, typer.Option(min=1, help="Samples drawn for each cell.")] = 1000,
    part: Annotated[str, typer.Option(help=f"{', '.join(PARTS)} or all.")] = "all",
    results: Annotated[
        Path, typer.Option(help="Folder of the CSV files. Their cells are not measured again.")
    ] = RESULTS,
    again: Annotated[
        list[str] | None,
        typer.Option(metavar="QUANTITY", help="Of the part others: measure its cells again. Repeatable."),
    ] = None,
    tables: Annotated[bool, typer.Option("--tables", help="Only rewrite the tables.")] = False,
) -> None:
    """Measure how often intervals contain the truth, and write the tables of docs/statistics.md and
    docs/research/coverage.md.

    With another folder of results the tables go to coverage.md in that folder. 1,000 repetitions take an hour on one
    core, 50 a few minutes. After a change of an interval, use --again with its quantity.
    """
    if part not in (*PARTS, "all"):
        raise typer.BadParameter(f"'{part}' is not a part. Choose {', '.join(PARTS)} or all.")
    parts = () if tables else PARTS if part == "all" else (part,)
    for name, (grid, cases) in GRIDS.items():
        if grid in parts:
            measure(Rows(results / f"coverage{name}.csv", KEY), cells(cases(), repetitions))
    if "development" in parts:
        measure(Rows(results / "coverage_test.csv", ["error", "n"]), rejections(max(1, repetitions // 2)))
    if "beyond" in parts:
        measure(Rows(results / "coverage_beyond.csv", list(beyond.Cell._fields)), beyond.cells(-(-repetitions // 2)))
    if "gain" in parts:
        measure(Rows(results / "coverage_gain.csv", gain.KEY), gain.cells(max(2, repetitions * 2 // 5)))
    if "tried" in parts:
        comparators.run(max(2, repetitions * 3 // 10), results / "coverage_tried.csv")
    if "others" in parts:
        other_intervals.run(repetitions, results / "coverage_other.csv", again or ())
    typer.echo(f"Wrote the tables of {' and '.join(map(str, written(results)))}.")
