"""`python -m benchmarks`: measurements that are commands. The others are files of their own: README.md has the list."""

from __future__ import annotations

from typing import Annotated

import typer

from benchmarks import coverage as measure
from benchmarks.unseen_populations import unseen

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def benchmarks() -> None:
    """Measure what skillviz claims about itself."""


@app.command()
def coverage(
    repetitions: Annotated[int, typer.Option(min=1, help="Samples drawn for each cell.")] = 1000,
    grid: Annotated[str, typer.Option(help="development, unseen or both.")] = "both",
    tables: Annotated[bool, typer.Option("--tables", help="Only write the tables again.")] = False,
) -> None:
    """Measure how often the calibration intervals hold the truth, and write docs/statistics.md's tables."""
    if grid not in ("development", "unseen", "both"):
        raise typer.BadParameter(f"'{grid}' is not a grid. Choose development, unseen or both.")
    if not tables:
        measure.RESULTS.mkdir(exist_ok=True)
        if grid != "unseen":
            measure.run(list(measure.development()), repetitions, measure.RESULTS / "coverage.csv")
            measure.size_of_test(max(1, repetitions // 2)).to_csv(measure.RESULTS / "coverage_test.csv", index=False)
            percentiles = measure.against_percentiles(max(1, repetitions // 4))
            percentiles.to_csv(measure.RESULTS / "coverage_percentiles.csv", index=False)
        if grid != "development":
            measure.run(list(unseen()), repetitions, measure.RESULTS / "coverage_unseen.csv")
    measure.written()


if __name__ == "__main__":
    app()
