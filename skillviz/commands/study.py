"""`study`: fine-tuned models, runs and scores from one file, and their tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skillviz import jobs
from skillviz.commands import find_study, options
from skillviz.commands.find_study import named, ships
from skillviz.commands.localize import reporter
from skillviz.commands.output import command_line, note, print_json, print_table, progress_bar, say, write_table
from skillviz.commands.process import BAD_USE
from skillviz.errors import BadInput
from skillviz.jobs.slots import devices_for_study, slot_of
from skillviz.jobs.slurm import backend_named
from skillviz.runs.artifact import LOCALIZE
from skillviz.runs.process import Progress, gently
from skillviz.runs.store import Store, store_root
from skillviz.studies.check import check
from skillviz.studies.engine import run_study
from skillviz.studies.pack import pack as packed
from skillviz.studies.plan import study_plan
from skillviz.studies.status import Snapshot
from skillviz.studies.step import TABLE
from skillviz.studies.time_left import time_left

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.engine import Outcome
    from skillviz.studies.spec import StudySpec
    from skillviz.studies.step import StudyStep

app = typer.Typer(help="Make and compare several runs: tasks, recipes, localizers, sizes, seeds.", no_args_is_help=True)
Study = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="A stored study by its name, yours or one that ships; or a YAML file: name, defaults (fields of every "
        "entry), runs (the entries).",
    ),
]
STEPS = ["step", "kind", "title", "state", "seconds"]


@app.command()
def run(
    study: Study,
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            min=1,
            metavar="N",
            help="Steps to run in parallel, on one device.",
        ),
    ] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the steps and notes; write nothing.")] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Make the tables from what is finished, even if steps failed.")
    ] = False,
    cluster: options.Cluster = None,
    runs_dir: options.RunsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Run every unfinished step of a study; an interrupted study resumes where it stopped.

    Steps are models to fine-tune, regions to find, models to score, and the tables. In the file, lists in base, task,
    k_shot, data_seed, recipe, localizer, size, seed and the seed of finetune give one entry for every combination of
    their values. A study that ships is run again in your own folder of runs. With --cluster its steps are jobs, several
    at a time.
    """
    spec, store = named(study, runs_dir, "own")
    if dry_run:
        _dry(spec, store, workers, as_json)
        return
    if cluster is not None:
        if workers > 1 or partial:
            raise BadInput(f"{'--workers' if workers > 1 else '--partial'} has no effect with --cluster; leave it out.")
        submit(spec, store, cluster, as_json)
        return
    report(spec, store, run_here(spec, store, workers, partial), as_json)


def submit(study: StudySpec, store: Store, cluster: options.ClusterName, as_json: bool) -> None:
    """Submits a study to a cluster and prints its name, alone on the last line."""
    job = jobs.submit_study(study, store, backend_named(cluster))
    note(f"Follow it with `python -m skillviz jobs watch {job.name}`; it keeps running without this terminal.")
    if as_json:
        print_json({"name": job.name, "status": job.status, "path": str(job.path)})
    else:
        say(job.name)


def run_here(
    study: StudySpec, store: Store, workers: int = 1, partial: bool = False, budget: float | None = None
) -> Outcome:
    """Runs a study in this process (and its workers) with a bar on stderr, holding its devices; returns the outcome."""
    at = Snapshot(study_plan(study), store)
    check(at)
    missing = [step for step in at.plan.steps if not at.is_there(step)]
    note(f"{study.name}: {time_left(at, workers)}")
    slots, announced = {slot_of(step.device) for step in missing if step.kind != TABLE}, set[str]()
    with progress_bar("study", is_whole=False) as advance, gently(reporter(advance)) as progress:

        def on_step(number: int, count: int, step: StudyStep, what: str) -> None:
            if what != "skipped" and not (what == "started" and at.is_there(step)):
                note(f"{number} of {count} {what}: {step.title}")

        def waits(slot: str) -> None:
            if slot not in announced:
                note(f"Waiting for {slot}, which a job is using; Ctrl-C stops waiting.")
            announced.add(slot)
            progress(Progress("queue", text=f"waiting for {slot}, which a job is using"))

        with devices_for_study(store.root, sorted(slots), waits):
            return run_study(
                study,
                store,
                workers=workers,
                progress=progress,
                on_step=on_step,
                command=command_line(),
                partial=partial,
                budget=budget,
            )


def report(study: StudySpec, store: Store, outcome: Outcome, as_json: bool) -> None:
    """Prints the outcome of a study; exits with code 2 if steps failed."""
    done, skipped, failed = len(outcome.finished), len(outcome.skipped), outcome.failed
    lost = f", {len(outcome.not_reached)} not reached" if outcome.not_reached else ""
    say(f"{study.name}: {done} made, {skipped} finished before, {len(failed)} failed{lost}, in {outcome.path}")
    for step, why in outcome.again:
        note(f"{step.title}: made again, as {why}.")
    for step, why in outcome.unchecked:
        note(f"{step.title}: kept as it was. Whether its sources changed is unknown: {why}.")
    for step, failure in failed:
        note(f"{step.title}: {failure.kind}: {failure.message}")
    if as_json:
        ids = {key: run.id for key, run in Snapshot(study_plan(study), store).of(LOCALIZE).items()}
        runs = {"finished": outcome.finished, "skipped": outcome.skipped}
        print_json(
            {
                "name": study.name, "path": str(outcome.path),
                **{what: [ids[step.key] for step in steps if step.key in ids] for what, steps in runs.items()},
                "failed": [failure.message for _, failure in failed],
                "steps": {"finished": done, "skipped": skipped, "failed": len(failed),
                          "not_reached": len(outcome.not_reached)},
                "seconds": outcome.seconds,
            }
        )  # fmt: skip
    if failed:
        raise typer.Exit(BAD_USE)


@app.command()
def status(
    study: Study,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            metavar="N",
            help="The time left with N steps in parallel. Default: as many as the study was started with.",
        ),
    ] = None,
    runs_dir: options.RunsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Print every step of a study with its state and the seconds it took, and the time left.

    A step that is "not here" was finished, but its result is not in this store: fine-tuned models do not ship.
    """
    spec, store = named(study, runs_dir, "begun")
    at = Snapshot(study_plan(spec), store)
    is_packed = ships(store, runs_dir)
    frame = find_study.steps(at, is_packed)
    here = Snapshot(at.plan, Store(store_root(runs_dir))) if is_packed else at
    count = workers or (here.folder.record.workers if here.folder is not None else 1)
    left = time_left(here, count)
    print_table(spec.name, frame[STEPS], keep=("state",))
    for row in _records(frame[frame["error"] != ""]):
        note(f"{row['title']}: {row['error']}")
    where = find_study.place(at, runs_dir)
    counts = frame["state"].value_counts().to_dict()
    todo = left if here is at else f"to make it again in {here.store.root}: {left}"
    say(f"{spec.name}: {', '.join(f'{n} {state}' for state, n in counts.items())}; {todo}")
    say(where)
    if as_json:
        content = {"name": spec.name, "states": counts, "left": left, "workers": count, "store": str(store.root)}
        print_json({**content, "steps": _records(frame)})


@app.command()
def table(
    study: Study,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="TABLE", help="One of the tables that `study run` made, such as scores."),
    ] = None,
    runs_dir: options.RunsDir = None,
    paired: Annotated[
        bool, typer.Option("--differences", help="Compare every two localizers at equal size, paired.")
    ] = False,
    areas: Annotated[
        bool,
        typer.Option(
            "--areas",
            help="Mean over region sizes (logarithmic) of each graft and of the model without the region.",
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Also write it as CSV.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Print a table of a study. Without --name: its scores by model, method and size (means over seeds, with
    intervals), or its main table. An unfinished study shows its finished runs.

    In a pipe: tab-separated, every column under the name and in the unit that it is stored in, shares from 0 to 1.
    """
    spec, store = named(study, runs_dir, "tables")
    if ships(store, runs_dir):
        note(f"Of the study '{spec.name}' that ships, in {store.root}.")
    frame = find_study.area_table(spec, store) if areas else find_study.study_table(spec, store, name, paired)
    if frame.empty:
        raise BadInput(
            f"no run of study '{spec.name}' is finished in {store.root}; make them with `study run {study}`."
        )
    if out is not None:
        write_table(frame, out)
    print_table(spec.name, frame)
    if as_json:
        print_json({"name": spec.name, "rows": _records(frame)})


@app.command()
def pack(
    study: Study,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIR", help="Another folder of runs, which also gets its scores and tables."),
    ] = None,
    no_rankings: Annotated[
        bool, typer.Option("--no-rankings", help="Leave out ranking.safetensors, most of a run's bytes.")
    ] = False,
    as_folder: Annotated[
        list[str] | None,
        typer.Option("--as-folder", metavar="RUN", help="A run that stays or becomes a folder; may be repeated."),
    ] = None,
    runs_dir: options.RunsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Pack a study's finished runs into one file, from which they open on every page; fine-tuned models stay.

    Without --to, the file is in the study's own folder of runs, and the runs' folders are removed.
    """
    spec, store = named(study, runs_dir, "tables")
    if to is None and ships(store, runs_dir):
        raise BadInput(f"the study '{spec.name}' ships with skillviz, in {store.root}; name another folder with --to.")
    folders = [store.resolve(run) for run in as_folder or ()]
    done = packed(spec, store, Store(to or store.root), rankings=not no_rankings, as_folders=folders)
    there = f", {done.there} were there" if done.there else ""
    say(f"{done.runs} runs and {done.scores} scores packed{there}, {done.bytes / 1e6:.1f} MB; the study is {done.path}")
    if as_json:
        values = {"runs": done.runs, "scores": done.scores, "there": done.there, "bytes": done.bytes}
        print_json({**values, "path": str(done.path)})


def _dry(study: StudySpec, store: Store, workers: int, as_json: bool) -> None:
    """Prints the plan, the time left if it is measured, and the notes that its runs will store; nothing is written."""
    at = Snapshot(study_plan(study), store)
    check(at)
    frame = find_study.steps(at)
    print_table(study.name, frame[[name for name in STEPS if name != "seconds"]], keep=("state",))
    left = time_left(at, workers)
    say(f"{study.name}: {left}")
    notes = find_study.say_notes(at)
    if as_json:
        fields = {"name": study.name, "left": left, "workers": workers, "notes": notes}
        print_json({**fields, "steps": _records(frame)})


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(k): v for k, v in row.items()} for row in frame.astype(object).to_dict("records")]
