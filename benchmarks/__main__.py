"""`python -m benchmarks`: measurements that are commands. The others are files of their own: README.md has the list."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import comparators, other_intervals
from benchmarks import coverage as measure
from benchmarks.unseen_populations import unseen

app = typer.Typer(no_args_is_help=True, add_completion=False)
PARTS = ("development", "unseen", "tried", "others")


@app.callback()
def benchmarks() -> None:
    """Measure what skillviz claims about itself."""


@app.command()
def coverage(
    repetitions: Annotated[int, typer.Option(min=1, help="Samples drawn for each cell.")] = 1000,
    part: Annotated[str, typer.Option(help="development, unseen, tried, others or all.")] = "all",
    results: Annotated[
        Path, typer.Option(help="Folder of the CSV files. A cell that is there is not measured again.")
    ] = measure.RESULTS,
    tables: Annotated[bool, typer.Option("--tables", help="Only write the tables again.")] = False,
) -> None:
    """Measure how often intervals hold the truth, and write docs/statistics.md's tables.

    With another folder of results the tables go to statistics.md in that folder. All 1,000 repetitions take hours on
    one core, 50 take minutes.
    """
    if part not in (*PARTS, "all"):
        raise typer.BadParameter(f"'{part}' is not a part. Choose {', '.join(PARTS)} or all.")
    begun, parts = time.monotonic(), () if tables else PARTS if part == "all" else (part,)
    results.mkdir(parents=True, exist_ok=True)
    if "development" in parts:
        measure.run(list(measure.development()), repetitions, results / "coverage.csv")
        measure.size_of_test(max(1, repetitions // 2), results / "coverage_test.csv")
    if "unseen" in parts:
        measure.run(list(unseen()), repetitions, results / "coverage_unseen.csv")
    if "tried" in parts:
        comparators.run(max(2, repetitions * 3 // 10), results / "coverage_tried.csv")
    if "others" in parts:
        other_intervals.run(repetitions, results / "coverage_other.csv")
    page = measure.written(results)
    typer.echo(f"Wrote the tables of {page} after {(time.monotonic() - begun) / 60:.1f} min.")


if __name__ == "__main__":
    app()
