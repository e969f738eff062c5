"""`python -m benchmarks`: benchmarks that are commands. The others are separate files, listed in README.md."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import pandas as pd
import typer

from benchmarks import (
    baselines_report,
    beyond_coverage,
    comparators,
    gain_coverage,
    live_pages,
    localizer_figure,
    localizer_report,
    masked_lm_commands,
    other_intervals,
)
from benchmarks import coverage as measure
from benchmarks import localizer as regions
from benchmarks import speed as measured_speed
from benchmarks.random_populations import drawn
from benchmarks.reliability import page as reliability_page
from benchmarks.reliability.attempt import add
from benchmarks.reliability.faults import FAULTS, planted
from benchmarks.reliability.table import ATTEMPTS
from benchmarks.unseen_populations import unseen

app = typer.Typer(add_completion=False)
app.add_typer(masked_lm_commands.app, name="masked-lm")
PARTS = ("development", "unseen", "later", "random", "tried", "others")
Repetitions = Annotated[int, typer.Option(min=1, help="Samples drawn for each cell.")]
TablesOnly = Annotated[bool, typer.Option("--tables", help="Only rewrite the table.")]


@app.callback(invoke_without_command=True)
def benchmarks(context: typer.Context) -> None:
    """Measure the properties that skillviz claims. Without a command: speed."""
    if context.invoked_subcommand is None:
        speed()


@app.command()
def speed(
    short: Annotated[bool, typer.Option("--short", help="A tiny model: under a minute.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="SECTION", help=f"{', '.join(measured_speed.SECTIONS)}.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Folder of the results. Without it, the long form writes benchmarks/README.md.")
    ] = None,
    tables: Annotated[bool, typer.Option("--tables", help="Only rewrite the table.")] = False,
) -> None:
    """Measure steps, searches and sweeps over the least they could take, and beside the published loop."""
    sections = measured_speed.SHORT if short else measured_speed.SECTIONS
    if unknown := [name for name in only or () if name not in sections]:
        raise typer.BadParameter(f"'{unknown[0]}' is not a section. Choose {', '.join(sections)}.")
    with TemporaryDirectory(prefix="skillviz-speed-") as passing:
        usual = measured_speed.RESULTS[measured_speed.this_device()]
        folder = results or (Path(passing) if short else usual)
        found = (
            measured_speed.stored(folder, sections) if tables
            else measured_speed.run(folder, short=short, only=only or (), say=partial(print, flush=True))
        )  # fmt: skip
    typer.echo(measured_speed.table(found))
    if folder == usual:
        measured_speed.write()


@app.command()
def coverage(
    repetitions: Annotated[int, typer.Option(min=1, help="Samples drawn for each cell.")] = 1000,
    part: Annotated[str, typer.Option(help=f"{', '.join(PARTS)} or all.")] = "all",
    results: Annotated[
        Path, typer.Option(help="Folder of the CSV files. Cells in it are not measured again.")
    ] = measure.RESULTS,
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
    begun, parts = time.monotonic(), () if tables else PARTS if part == "all" else (part,)
    results.mkdir(parents=True, exist_ok=True)
    if "development" in parts:
        measure.run(list(measure.development()), repetitions, results / "coverage.csv")
        measure.size_of_test(max(1, repetitions // 2), results / "coverage_test.csv")
    if "unseen" in parts:
        measure.run(list(unseen()), repetitions, results / "coverage_unseen.csv")
    if "later" in parts:
        measure.run(list(measure.later()), repetitions, results / "coverage_later.csv")
    if "random" in parts:
        measure.run(list(drawn()), repetitions, results / "coverage_random.csv")
    if "tried" in parts:
        comparators.run(max(2, repetitions * 3 // 10), results / "coverage_tried.csv")
    if "others" in parts:
        other_intervals.run(repetitions, results / "coverage_other.csv", again or ())
    pages = " and ".join(map(str, measure.written(results)))
    typer.echo(f"Wrote the tables of {pages} after {(time.monotonic() - begun) / 60:.1f} min.")


@app.command()
def beyond(repetitions: Repetitions = 1000, tables: TablesOnly = False) -> None:
    """Measure how often the interval of *beyond the null* contains the truth, for docs/research/coverage.md."""
    _simulated(beyond_coverage, repetitions, tables)


@app.command()
def gain(repetitions: Repetitions = 400, tables: TablesOnly = False) -> None:
    """Measure how often the interval of a fitted gain contains the truth, for docs/research/coverage.md."""
    _simulated(gain_coverage, repetitions, tables)


def _simulated(simulation: Any, repetitions: int, tables: bool) -> None:
    """Run a simulation of an interval, or read its stored rows with `tables`, and write its table."""
    simulation.write(pd.read_csv(simulation.OUT) if tables else simulation.run(repetitions))


@app.command()
def localizer(
    work: Annotated[Path, typer.Option(help="Folder of the fine-tuned models. Missing ones are made.")] = Path(
        "models/localizer"
    ),
    rounds: Annotated[int, typer.Option(min=1, max=len(regions.ROUNDS), help="How many rounds of seeds to run.")] = 9,
    tasks: Annotated[str, typer.Option(help="Tasks, separated by commas.")] = ",".join(regions.TASKS),
    base: Annotated[str, typer.Option(help="The base model.")] = regions.BASE,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    results: Annotated[
        Path, typer.Option(help="Folder of the rows. With another folder, docs/localizers.md does not change.")
    ] = regions.RESULTS,
    processes: Annotated[int, typer.Option(min=1, help="Processes that share the fine-tuned models out.")] = 1,
    minutes: Annotated[float | None, typer.Option(help="With --processes: stop then; start again to go on.")] = None,
    tf32: Annotated[bool, typer.Option("--tf32", help="Let a GPU round matrix products, but not of scores.")] = False,
    merge: Annotated[Path | None, typer.Option(help="Only add the rows of this folder of results.")] = None,
    development: Annotated[
        bool, typer.Option("--development", help="Only the tasks that the configuration was chosen on, by validation.")
    ] = False,
    tables: Annotated[bool, typer.Option("--tables", help="Only rewrite the tables and pictures.")] = False,
) -> None:
    """Compare localizers on six tasks not used for any choice, and write docs/localizers.md's tables and pictures."""
    names = tuple(name.strip() for name in tasks.split(","))
    if unknown := [name for name in names if name not in regions.TASKS]:
        raise typer.BadParameter(f"'{unknown[0]}' is not a task here. Choose from {', '.join(regions.TASKS)}.")
    if merge:
        if not (theirs := regions.Stored(merge)).rows:
            raise typer.BadParameter(f"{merge} has no {theirs.path.name}. Give the folder that --results named.")
        typer.echo(f"{regions.Stored(results).merge(theirs):,} new rows of {merge}.")
    opened = partial(regions.opened, work=work, base=base, device=device)
    if development:
        regions.develop(
            results / "localizer_development.csv", partial(opened, on_validation=True), partial(print, flush=True)
        )
    elif not (tables or merge):
        regions.run_in_processes(
            regions.plan(rounds, names), results, opened, processes, minutes,
            regions.TF32 if tf32 else "highest", partial(print, flush=True),
        )  # fmt: skip
    if results == regions.RESULTS:
        localizer_report.write_tables()
        localizer_figure.write()


@app.command(name="planted")
def planted_skills(
    localizer: Annotated[
        list[str] | None, typer.Option("--localizer", metavar="NAME", help="Only this localizer; repeatable.")
    ] = None,
    seed: Annotated[list[int] | None, typer.Option("--seed", min=0, help="Only this seed; repeatable.")] = None,
    encoder: Annotated[str, typer.Option(help="small, or minilm-l6 for three cells on MiniLM.")] = "small",
    work: Annotated[Path, typer.Option(help="Folder of the models. Missing ones are made.")] = Path("models/planted"),
    results: Annotated[
        Path, typer.Option(help="Folder of the rows. With another one, docs/research/known-truth.md does not change.")
    ] = regions.RESULTS,
    tables: TablesOnly = False,
) -> None:
    """Plant skills in known regions, search them with localizers, and write docs/research/known-truth.md's tables."""
    from benchmarks import planted as hidden  # imports torch
    from skillviz.core.localizers.table import localizer as known

    if encoder not in hidden.ENCODERS:
        raise typer.BadParameter(f"'{encoder}' is not an encoder here. Choose {' or '.join(hidden.ENCODERS)}.")
    names = [known(name).name for name in localizer or hidden.LOCALIZERS]
    if not tables:
        hidden.run(work, results, encoder, seed or hidden.SEEDS, names, say=partial(print, flush=True))
    if results == regions.RESULTS:
        hidden.write()


@app.command()
def baselines(
    studies: Annotated[Path, typer.Option(help="Folder of the stored studies.")] = baselines_report.STUDIES,
) -> None:
    """Write the tables of docs/research/baselines.md from the stored studies, without running a model."""
    names = baselines_report.write(studies)
    typer.echo(f"Wrote the tables of {', '.join(names) or 'no study'} to docs/research/baselines.md.")


@app.command()
def live(
    run: Annotated[str, typer.Option(help="A run that ships. Default: the one that the dashboard opens on.")] = "",
    searches: Annotated[int, typer.Option(min=0, help="Quick localizations to time.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder of README.md and results.")] = Path(__file__).parent,
) -> None:
    """Measure how long the live pages take: a sentence, an explanation, a region by hand, a quick localization."""
    typer.echo(live_pages.main(run, out, searches))


@app.command()
def reliability(
    short: Annotated[bool, typer.Option("--short", help="A few tries of each kind: some minutes.")] = False,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="One attempt; repeatable.")] = None,
    plant: Annotated[
        list[str] | None,
        typer.Option(metavar="FAULT", help="Plant a fault and try the attempt that must notice it; repeatable."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Stop each attempt then; its row counts the tries made so far.")
    ] = None,
    results: Annotated[
        Path, typer.Option(help="Folder of reliability.csv. With another, the page does not change.")
    ] = reliability_page.RESULTS,
    tables: Annotated[bool, typer.Option("--tables", help="Only rewrite the tables.")] = False,
) -> None:
    """Try to break skillviz, and write docs/research/reliability.md's tables. Exit code 1: something was lost."""
    if wrong := [name for name in plant or () if name not in FAULTS]:
        raise typer.BadParameter(f"'{wrong[0]}' is not a fault. Choose {', '.join(FAULTS)}.")
    if wrong := [name for name in only or () if name not in ATTEMPTS]:
        raise typer.BadParameter(f"'{wrong[0]}' is not an attempt. Choose {', '.join(ATTEMPTS)}.")
    if plant:
        unnoticed = planted(plant)
        if unnoticed:
            typer.echo(f"Not noticed: {', '.join(unnoticed)}.")
        raise typer.Exit(0 if unnoticed else 1)
    form, lost = "short" if short else "long", 0
    for name in () if tables else only or (name for name, one in ATTEMPTS.items() if one.is_of(form)):
        with TemporaryDirectory(prefix="skillviz-reliability-") as work:
            row = ATTEMPTS[name].made(form, Path(work), partial(print, flush=True), minutes=minutes)
        lost += int(str(row["lost"]))
        add(row, results / reliability_page.FILE)
    if results == reliability_page.RESULTS:
        reliability_page.write()
    raise typer.Exit(1 if lost else 0)


if __name__ == "__main__":
    app()
