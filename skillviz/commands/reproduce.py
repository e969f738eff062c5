"""`reproduce`: an experiment of the paper, or all of them, at a scale or on the user's own models."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skillviz.commands import find_study, options
from skillviz.commands.output import note, print_json, print_table, say
from skillviz.commands.process import BAD_USE
from skillviz.commands.study import run_here, submit
from skillviz.core.formats import number
from skillviz.errors import BadInput
from skillviz.jobs.slurm import backend_named
from skillviz.runs.store import Store, store_root
from skillviz.studies.paper.costs import costs
from skillviz.studies.paper.published_values import beside
from skillviz.studies.paper.request import refuse_wrong, study_of, write_study
from skillviz.studies.paper.scales import scale as scale_named
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import ExperimentRequest
from skillviz.studies.status import Snapshot, cores
from skillviz.studies.store import open_study, study_path
from skillviz.studies.time_left import NOUNS, time_left

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from skillviz.studies.engine import Outcome
    from skillviz.studies.paper.costs import ExperimentCost
    from skillviz.studies.paper.experiment import Experiment
    from skillviz.studies.paper.scales import Scale as ScaleRow
    from skillviz.studies.spec import StudySpec

ALL = "all"
Name = Annotated[
    str,
    typer.Argument(
        metavar="EXPERIMENT",
        help="A table or figure of the paper, such as table2 or figure6, localizers, or sensitivity; all runs them one "
        "after the other; any other word lists them.",
    ),
]
Scale = Annotated[
    str,
    typer.Option(
        "--scale",
        metavar="small|paper",
        help="small: the tasks in examples/ and a small encoder, for two CPU cores; paper: roberta-base with the "
        "paper's tasks, sizes and grid, for a GPU.",
    ),
]
Base = Annotated[
    str | None,
    typer.Option("--base", metavar="MODEL", rich_help_panel=options.MODELS, help="Use this base instead."),
]
Finetuned = Annotated[
    str | None,
    typer.Option(
        "--finetuned",
        metavar="MODEL",
        rich_help_panel=options.MODELS,
        help="Your own fine-tuned model of the one task named with --tasks; without it one is fine-tuned.",
    ),
]
Tasks = Annotated[
    list[str] | None,
    typer.Option(
        "--tasks", "--task", metavar="TASK",
        rich_help_panel=options.MODELS,
        help="Tasks of the scale, all, or YAML files; several with commas or given again.",
    ),
]  # fmt: skip
Also = Annotated[
    list[str] | None,
    typer.Option(
        "--also", metavar="TASK",
        rich_help_panel=options.MODELS,
        help="Score the models on this task too, which has the same labels; may be given again. Tasks of your own that "
        "share their labels are scored on each other anyway.",
    ),
]  # fmt: skip
Data = Annotated[
    str | None,
    typer.Option(
        "--data", metavar="DIR", rich_help_panel=options.DATA,
        help="Your tasks: a folder with a folder for each, in it a task.yaml; all, or those named with --tasks.",
    ),
]  # fmt: skip
Seeds = Annotated[
    int | None,
    typer.Option(
        "--seeds", min=1, metavar="N",
        help="Fine-tune each model that is grafted with N seeds (default 1), where the experiment takes several; "
        "not with --finetuned.",
    ),
]  # fmt: skip
Samples = Annotated[
    int | None,
    typer.Option(
        "--samples", min=1, metavar="N", rich_help_panel=options.DATA,
        help="Draw N samples of K training examples per label, and fine-tune on each (default 1; the paper: 5).",
    ),
]  # fmt: skip
Workers = Annotated[
    int,
    typer.Option("--workers", min=1, metavar="N", rich_help_panel=options.WHERE, help="Steps to run in parallel."),
]
CoreHours = Annotated[
    float | None,
    typer.Option(
        "--core-hours", min=0.0, metavar="H", rich_help_panel=options.WHERE,
        help="With all: start no step once H core-hours are spent. Finished steps count with the time that they took.",
    ),
]  # fmt: skip
Steps = Annotated[
    int | None,
    typer.Option("--steps", metavar="N", rich_help_panel=options.SEARCH, help="Steps of each search."),
]
TrainSteps = Annotated[
    int | None,
    typer.Option("--train-steps", metavar="N", rich_help_panel=options.DATA, help="Steps of each fine-tuning."),
]
Sizes = Annotated[
    list[str] | None,
    typer.Option(
        "--sizes", metavar="SHARE", rich_help_panel=options.SEARCH,
        help="Sizes of regions, the main one first: shares such as 0.01%, with commas or given again.",
    ),
]  # fmt: skip
MaxTest = Annotated[
    int | None,
    typer.Option("--max-test", metavar="N", rich_help_panel=options.DATA, help="Use at most N test examples."),
]
KShot = Annotated[
    int | None,
    typer.Option("--k-shot", metavar="K", rich_help_panel=options.DATA, help="K training examples per label."),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", rich_help_panel=options.WHERE,
        help="Say how many models, runs and scores; write and start nothing.",
    ),
]  # fmt: skip
WriteOnly = Annotated[
    bool,
    typer.Option(
        "--write-only", rich_help_panel=options.WHERE, help="Write the study file, print its steps, and stop."
    ),
]


def reproduce(
    name: Name,
    scale: Scale = "small",
    base: Base = None,
    finetuned: Finetuned = None,
    tasks: Tasks = None,
    readout: options.ReadoutOption = None,
    also: Also = None,
    data: Data = None,
    seeds: Seeds = None,
    steps: Steps = None,
    train_steps: TrainSteps = None,
    sizes: Sizes = None,
    max_test: MaxTest = None,
    k_shot: KShot = None,
    samples: Samples = None,
    runs_dir: options.RunsDir = None,
    workers: Workers = 1,
    core_hours: CoreHours = None,
    cluster: options.Cluster = None,
    dry_run: DryRun = False,
    write_only: WriteOnly = False,
    as_json: options.AsJson = False,
) -> None:
    """Run an experiment of the paper on your pair or base, and compare the result with the paper.

    An interrupted experiment resumes where it stopped. The file can be changed and run with [bold]study run[/bold].
    """
    store = Store(store_root(runs_dir))
    if name == ALL:
        others = (
            base, finetuned, tasks, readout, also, data, seeds, steps, train_steps, sizes, max_test, k_shot, samples,
            cluster, write_only or None,
        )  # fmt: skip
        if any(one is not None for one in others):
            raise BadInput("all takes --scale, --core-hours, --workers, --runs-dir, --dry-run and --json alone.")
        _all(scale, store, workers, core_hours, dry_run, as_json)
        return
    if core_hours is not None:
        raise BadInput("--core-hours limits all: `python -m skillviz reproduce all --core-hours H`.")
    kind = readout.value if readout else None
    shares = tuple(size for text in sizes or () for size in re.split(r"[,\s]+", text) if size)
    request = ExperimentRequest(
        name, scale, base, data, tuple(tasks or ()), seeds, kind, finetuned, tuple(also or ()),
        steps, train_steps, shares, max_test, k_shot, samples,
    )  # fmt: skip
    row, chosen, study = study_of(request, store)
    refuse_wrong(study, store)
    if dry_run:
        _tell(row, chosen)
        at = Snapshot(study_plan(study), store)
        say(f"{study.name}: {time_left(at, workers)}.")
        notes = find_study.say_notes(at)
        if as_json:
            left = {f"{noun}s": sum(not at.is_there(step) for step in at.plan.of(kind)) for kind, noun in NOUNS.items()}
            print_json({"name": study.name, **left, "notes": notes})
        return
    if cluster is not None:
        if workers > 1:
            raise BadInput("--workers has no effect with --cluster; leave it out.")
        backend_named(cluster).refuse()
    path = write_study(study, store)
    _tell(row, chosen)
    say(f"The study file is {path}.")
    say(f"{study.name}: {time_left(Snapshot(study_plan(study), store), workers)}.")
    if cluster is not None and not write_only:
        submit(study, store, cluster, as_json)
        return
    outcome = None if write_only else _run(study, store, workers)
    tables = {} if outcome is None else _tables(row, study, store)
    if as_json:
        rows = {n: frame.astype(object).where(frame.notna(), None).to_dict("records") for n, frame in tables.items()}
        print_json({"name": study.name, "file": str(path), **_counts(outcome), "rows": rows})
    if outcome is not None and not outcome.is_whole:
        raise typer.Exit(BAD_USE)


def _all(scale: str, store: Store, workers: int, core_hours: float | None, dry_run: bool, as_json: bool) -> None:
    """Runs the experiments in order until the core-hours are spent, or prints the missing steps of each."""
    usual = scale_named(scale)
    known = costs(usual, store)
    frame = cost_table(known)
    print_table(f"The experiments at the scale {scale}, in their order", frame, keep=list(map(str, frame)))
    if dry_run:
        if as_json:
            print_json({"scale": scale, "experiments": frame.to_dict("records")})
        return
    failed, is_spent = list[str](), False
    for name in known:
        left = None if core_hours is None else core_hours - _spent(known)
        if is_spent := left is not None and left <= 0:
            break
        _, _, study = study_of(ExperimentRequest(name, scale), store)
        refuse_wrong(study, store)
        write_study(study, store)
        budget = None if left is None else 3600 * left * workers / cores()
        outcome = _run(study, store, workers, budget)
        failed += [name] if outcome.failed else []
        known = costs(usual, store)
        if is_spent := bool(outcome.not_reached and not outcome.failed):
            break
    if is_spent:
        done = ", ".join(name for name, one in known.items() if one.is_whole) or "none"
        missing = ", ".join(name for name, one in known.items() if not one.is_whole)
        note(
            f"{number(_spent(known), 1)} of {number(core_hours, 1)} core-hours are spent. Finished: {done}. Not "
            f"finished: {missing}. The same command with a larger --core-hours goes on from here."
        )
    if failed:
        note(f"With failed steps: {', '.join(failed)}.")
        raise typer.Exit(BAD_USE)


def _spent(known: Mapping[str, ExperimentCost]) -> float:
    return sum(one.spent for one in known.values())


def cost_table(known: Mapping[str, ExperimentCost]) -> pd.DataFrame:
    """One row per experiment: the steps that are left by kind, and the core-hours that the finished steps took."""
    import pandas as pd  # heavy: only this table needs it

    kinds = ("models", "runs", "scores")
    rows = [
        {"experiment": name, **{kind: getattr(one, kind) for kind in kinds}, "core-hours spent": round(one.spent, 3)}
        for name, one in known.items()
    ]
    total = {"experiment": "total", **{kind: sum(getattr(one, kind) for one in known.values()) for kind in kinds}}
    return pd.DataFrame([*rows, {**total, "core-hours spent": round(_spent(known), 3)}])


def _tell(row: Experiment, chosen: ScaleRow) -> None:
    """Prints the question, and the differences between the study and the paper."""
    say(f"{row.title}: {row.question}")
    for aspect, paper, here in row.differences(chosen):
        note(f"{aspect}: {here} (the paper: {paper})")


def _run(study: StudySpec, store: Store, workers: int, budget: float | None = None) -> Outcome:
    outcome = run_here(study, store, workers, budget=budget)
    say(
        f"{study.name}: {len(outcome.finished)} steps done, {len(outcome.skipped)} done before, "
        f"{len(outcome.failed)} failed, {len(outcome.not_reached)} not reached; in {outcome.path}"
    )
    for step, failure in outcome.failed:
        note(f"{step.title}: {failure.kind}: {failure.message}")
    return outcome


def _tables(row: Experiment, study: StudySpec, store: Store) -> dict[str, pd.DataFrame]:
    """The study's tables as stored; prints the main one, and the scores next to the published ones."""
    folder = open_study(study_path(store.root, study))
    tables = {} if folder is None else {name: folder.table(name) for name in folder.tables()}
    if row.main in tables and row.main != "scores":
        print_table(f"{study.name}: {row.main}", tables[row.main], is_alone=False)
    if "scores" in tables:
        print_table(
            f"{study.name}: test scores beside the published ones (other model and data)",
            beside(row.published, tables),
            is_alone=False,
        )
    for text in tables["note"]["text"] if "note" in tables else ():
        note(str(text))
    say(f"The paper: {row.finding}")
    return tables


def _counts(outcome: Outcome | None) -> dict[str, Any]:
    if outcome is None:
        return {}
    counts = {name: len(getattr(outcome, name)) for name in ("finished", "skipped", "failed", "not_reached")}
    return {**counts, "seconds": outcome.seconds}
