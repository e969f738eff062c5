"""`study`: fine-tuned models, runs and scores from one file, and their tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skillviz.commands import options as given
from skillviz.commands.ending import BAD_USE
from skillviz.commands.output import note, print_json, print_rows, progress_bar, say
from skillviz.errors import BadInput
from skillviz.runs.store import Store, store_root

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.engine import Outcome
    from skillviz.studies.spec import StudySpec
    from skillviz.studies.step import Step

app = typer.Typer(help="Make and compare several runs: tasks, recipes, localizers, sizes, seeds.", no_args_is_help=True)
StudyFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A YAML file: name, defaults (fields of every entry), runs (the entries)."),
]


@app.command()
def run(
    file: StudyFile,
    workers: Annotated[
        int,
        typer.Option("--workers", min=1, metavar="N", help="Processes that do steps side by side, on one device."),
    ] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print steps and minutes only; write nothing.")] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Make the tables even where steps failed, of what there is.")
    ] = False,
    runs_dir: given.RunsDir = None,
    as_json: given.AsJson = False,
) -> None:
    """Do every step of a study that is not finished yet; start it again and it goes on where it stopped.

    Steps are models to fine-tune, regions to find, models to score, and the tables. In the file, lists in base, task,
    k_shot, data_seed, recipe, localizer, size, seed and the seed of finetune stand for one each, in every combination.
    """
    from skillviz.studies.spec import read_study

    study, store = read_study(file), Store(store_root(runs_dir))
    if dry_run:
        _dry(study, store, workers, as_json)
        return
    report(study, store, run_here(study, store, workers, partial), as_json)


def run_here(study: StudySpec, store: Store, workers: int = 1, partial: bool = False) -> Outcome:
    """What came of a study, run in this process (and its workers) with a bar on stderr; its devices are taken."""
    from skillviz.commands.trained import command_line
    from skillviz.jobs.slots import occupied, slot_of
    from skillviz.runs.stopping import gently
    from skillviz.studies.check import check
    from skillviz.studies.engine import run_study
    from skillviz.studies.plan import plan
    from skillviz.studies.status import Snapshot
    from skillviz.studies.step import TABLE

    at = Snapshot(plan(study), store)
    check(at)
    missing = [step for step in at.plan.steps if not at.is_there(step)]
    note(f"{study.name}: {_spoken(at, workers)}")
    slots = {slot_of(step.device) for step in missing if step.kind != TABLE}
    with progress_bar("study") as advance, gently(lambda p: advance(p.done, p.total, p.text)) as told:

        def on_step(number: int, count: int, step: Step, what: str) -> None:
            if what != "skipped" and not (what == "started" and at.is_there(step)):
                note(f"{number} of {count} {what}: {step.title}")

        def waits(slot: str) -> None:
            from skillviz.runs.progress import Progress

            told(Progress("queue", text=f"waiting for {slot}, which a job has"))

        with occupied(store.root, sorted(slots), waits):
            return run_study(
                study, store, workers=workers, progress=told, on_step=on_step, command=command_line(), partial=partial
            )


def report(study: StudySpec, store: Store, outcome: Outcome, as_json: bool) -> None:
    """Tells what came of a study; ends with code 2 where steps failed."""
    done, kept, failed = len(outcome.finished), len(outcome.skipped), outcome.failed
    lost = f", {len(outcome.not_reached)} not reached" if outcome.not_reached else ""
    say(f"{study.name}: {done} made, {kept} finished before, {len(failed)} failed{lost}, in {outcome.path}")
    for step, failure in failed:
        note(f"{step.title}: {failure.kind}: {failure.message}")
    if as_json:
        from skillviz.studies.store import finished

        ids = {key: run.id for key, run in finished(study.specs(), store).items()}
        runs = {"finished": outcome.finished, "skipped": outcome.skipped}
        print_json(
            {
                "name": study.name, "path": str(outcome.path),
                **{what: [ids[step.key] for step in steps if step.key in ids] for what, steps in runs.items()},
                "failed": [failure.message for _, failure in failed],
                "steps": {"finished": done, "skipped": kept, "failed": len(failed),
                          "not_reached": len(outcome.not_reached)},
                "seconds": outcome.seconds,
            }
        )  # fmt: skip
    if failed:
        raise typer.Exit(BAD_USE)


@app.command()
def status(file: StudyFile, runs_dir: given.RunsDir = None, as_json: given.AsJson = False) -> None:
    """Print every step of a study with its state, the seconds it took or is thought to take, and what is left."""
    from skillviz.studies.spec import read_study

    study, store = read_study(file), Store(store_root(runs_dir))
    frame, left = _steps(study, store)
    rows = [_cells(row, ("step", "kind", "title", "state", "seconds", "estimated")) for row in _records(frame)]
    print_rows(study.name, ["step", "kind", "title", "state", "seconds", "estimated"], rows)
    for row in _records(frame[frame["error"] != ""]):
        note(f"{row['title']}: {row['error']}")
    counts = frame["state"].value_counts().to_dict()
    say(f"{study.name}: {', '.join(f'{n} {state}' for state, n in counts.items())}; {left}")
    if as_json:
        print_json({"name": study.name, "states": counts, "left": left, "steps": _records(frame)})


@app.command()
def table(
    file: StudyFile,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="TABLE", help="One of the study's own tables, as scores; made by `study run`."),
    ] = None,
    runs_dir: given.RunsDir = None,
    paired: Annotated[
        bool, typer.Option("--differences", help="Each localizer against each other at equal size, paired.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Also write it as CSV.")] = None,
    as_json: given.AsJson = False,
) -> None:
    """Print a table of a study. Without --name: of its finished runs, means over seeds with intervals, by localizer and
    size; of an experiment of the paper, its table of scores.
    """
    from skillviz.studies.spec import read_study

    study, store = read_study(file), Store(store_root(runs_dir))
    frame = _table(study, store, name or ("differences" if paired else "scores"), name is not None)
    if frame.empty:
        raise BadInput(
            f"no run of study '{study.name}' is finished in {store.root}; make them with `study run {file}`."
        )
    if out is not None:
        _write(frame, out)
    print_rows(
        study.name, list(frame.columns), [[_cell(value) for value in row] for row in frame.itertuples(index=False)]
    )
    if as_json:
        print_json({"name": study.name, "rows": _records(frame)})


@app.command()
def pack(
    file: StudyFile,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder of runs to copy into.")],
    no_rankings: Annotated[
        bool, typer.Option("--no-rankings", help="Leave out ranking.safetensors, most of a run's bytes.")
    ] = False,
    runs_dir: given.RunsDir = None,
    as_json: given.AsJson = False,
) -> None:
    """Copy a study's finished runs, scores and tables into another folder of runs; fine-tuned models stay."""
    from skillviz.studies.pack import pack as packed
    from skillviz.studies.spec import read_study

    done = packed(read_study(file), Store(store_root(runs_dir)), Store(to), rankings=not no_rankings)
    there = f", {done.there} were there" if done.there else ""
    say(f"{done.runs} runs and {done.scores} scores copied{there}, {done.bytes / 1e6:.1f} MB; the study is {done.path}")
    if as_json:
        values = {"runs": done.runs, "scores": done.scores, "there": done.there, "bytes": done.bytes}
        print_json({**values, "path": str(done.path)})


def _dry(study: StudySpec, store: Store, workers: int, as_json: bool) -> None:
    """Prints the plan and its minutes; nothing is written."""
    from skillviz.studies.check import check
    from skillviz.studies.plan import plan
    from skillviz.studies.status import Snapshot

    at = Snapshot(plan(study), store)
    check(at)
    frame, _ = _steps(study, store)
    columns = ("step", "kind", "title", "state", "estimated")
    print_rows(study.name, list(columns), [_cells(row, columns) for row in _records(frame)])
    said = _spoken(at, workers)
    say(f"{study.name}: {said}")
    if as_json:
        print_json({"name": study.name, "left": said, "steps": _records(frame)})


def _steps(study: StudySpec, store: Store) -> tuple[pd.DataFrame, str]:
    """The table of steps with the seconds that each is thought to take, and what is left in words."""
    from skillviz.studies.estimate import estimates
    from skillviz.studies.plan import plan
    from skillviz.studies.status import Snapshot, status

    at = Snapshot(plan(study), store)
    found = estimates(at)
    frame = status(study, store).assign(estimated=[round(found.steps[step.key], 1) for step in at.plan.steps])
    return frame, _spoken(at, 1)


def _spoken(at: Any, workers: int) -> str:
    """How many steps are left, and how long they will take."""
    from skillviz.studies.estimate import estimates

    missing = [step for step in at.plan.steps if not at.is_there(step)]
    if not missing:
        return "nothing is left"
    told = estimates(at).words(missing, workers)
    return f"{len(missing)} of {len(at.plan.steps)} steps left, {told}"


def _table(study: StudySpec, store: Store, name: str, stored: bool) -> pd.DataFrame:
    """A stored table, or one made of the runs that are finished by now."""
    from skillviz.studies.generic import generic
    from skillviz.studies.plan import plan
    from skillviz.studies.results import Results
    from skillviz.studies.store import open_study, study_path

    if not stored and study.experiment is None:
        return generic(Results(plan(study), store))[name]
    folder = open_study(study_path(store.root, study))
    if folder is None or not folder.record.files:
        raise BadInput(f"the study '{study.name}' has no tables in {store.root} yet; make them with `study run`.")
    if folder.record.key != plan(study).key:
        note(f"The tables of '{study.name}' are of the file as it was before; `study run` makes them anew.")
    return folder.table(name)


def _write(frame: pd.DataFrame, out: Path) -> None:
    """The table as CSV, whole or not at all."""
    from skillviz.runs.atomic import write_text

    if not out.absolute().parent.is_dir() or out.is_dir():
        raise BadInput(f"{out} cannot be written: name a file in a folder that exists.")
    write_text(out, frame.to_csv(index=False))


def _cells(row: dict[str, Any], columns: tuple[str, ...]) -> list[str]:
    return ["" if row[name] != row[name] else _cell(row[name]) for name in columns]


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(k): v for k, v in row.items()} for row in frame.astype(object).to_dict("records")]
