"""`localize`: find the region and store the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from skillviz import jobs, json_text
from skillviz.commands import options
from skillviz.commands import parts as part_scores
from skillviz.commands.output import note, print_finding, print_json, print_run, progress_bar, run_json, say
from skillviz.core.localizers.table import DEFAULT_LOCALIZER
from skillviz.core.region_parts import CELLS
from skillviz.errors import BadInput
from skillviz.jobs.backend import Backend
from skillviz.jobs.slots import kind_of
from skillviz.jobs.slurm import backend_named
from skillviz.runs.plan import planned
from skillviz.runs.process import Progress, gently
from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.spec import DEFAULT_SIZE, RunSpec, read_spec, usual_nulls
from skillviz.runs.store import Store, library, option_of, store_root

NO_TASK = "no task"
"""The task of a spec whose command was given none."""


class ManySizes(TyperCommand):
    """Takes `--size 0.1% 10646 0.001` as well as `--size 0.1% --size 10646 --size 0.001`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The remaining arguments, after each value following --size has been given its own --size."""
        return super().parse_args(ctx, spread(args))


def spread(args: list[str], option: str = "--size") -> list[str]:
    """The arguments with `option` repeated before each further value that follows it."""
    result: list[str] = []
    inside = False
    for word in args:
        if word.startswith("-") and not word[1:2].isdigit():
            inside = word == option or word.startswith(f"{option}=")
            result.append(word)
            continue
        if inside and result[-1] != option:
            result.append(option)
        result.append(word)
    return result


def run_spec(
    base: options.Base,
    finetuned: options.Finetuned,
    task: options.TaskName,
    readout: options.ReadoutOption = None,
    method: options.Method = DEFAULT_LOCALIZER,
    size: options.Sizes = None,
    steps: options.Steps = None,
    batch_size: options.BatchSize = None,
    seed: options.Seed = 0,
    option: options.LocalizerOptions = None,
    k_shot: options.KShot = None,
    data_seed: options.DataSeed = 0,
    max_train: options.MaxTrain = None,
    max_validation: options.MaxValidation = None,
    max_test: options.MaxTest = None,
    nulls: options.Nulls = None,
    null_draws: options.NullDraws = 1,
    gain: options.Gain = "1",
    outside: options.Outside = "",
    interpolation: options.Interpolation = False,
    also: options.Also = None,
    device: options.Device = "auto",
    dtype: options.Dtype = None,
    lean: options.Lean = False,
    data_parallel: options.DataParallel = None,
    autocast: options.AutocastOption = None,
    cuda_graphs: options.CudaGraphs = False,
) -> RunSpec:
    """The run that these options define, the same for every command that has them. Raises BadInput."""
    given = dict(
        base=base, finetuned=finetuned, task=task or NO_TASK, readout=readout and readout.value, localizer=method,
        sizes=tuple(size or [DEFAULT_SIZE]), steps=steps, batch_size=batch_size, seed=seed,
        options=read_options(option or []), k_shot=k_shot, data_seed=data_seed, max_train=max_train,
        max_validation=max_validation, max_test=max_test, nulls=nulls.value if nulls else usual_nulls(method),
        null_draws=null_draws, gain=gain, outside=outside, interpolation=interpolation, others=tuple(also or []),
        device=device, dtype=dtype.value if dtype else "own" if lean else "float32", lean=lean,
        data_parallel=data_parallel or int(os.environ.get("WORLD_SIZE", "1")), autocast=autocast and autocast.value,
        cuda_graphs=cuda_graphs,
    )  # fmt: skip
    return read_spec(given).anchored(Path.cwd())


def takes_run(command: Callable[..., None]) -> Callable[..., None]:
    """A command that has the options of `run_spec` before its own, and gets the run that they define as `spec`.

    An option of its own with the name of one of these takes its place.
    """
    shared, own = (dict(signature(one, eval_str=True).parameters) for one in (run_spec, command))
    del own["spec"]

    @wraps(command)
    def called(**typed: Any) -> None:
        spec = run_spec(**{name: typed[name] for name in shared})
        command(spec, **{name: typed[name] for name in own if name not in shared})

    rows = [row.replace(kind=Parameter.KEYWORD_ONLY) for row in {**shared, **own}.values()]
    called.__signature__ = Signature(rows)  # type: ignore[attr-defined]
    called.__annotations__ = {row.name: row.annotation for row in rows}
    return called


@takes_run
def localize(
    spec: RunSpec,
    parts: Annotated[
        bool,
        typer.Option(
            "--parts",
            rich_help_panel=options.SEARCH,
            help="Also score each part of the region, like parts.",
        ),
    ] = False,
    runs_dir: options.RunsDir = None,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach",
            rich_help_panel=options.WHERE,
            help="Start it as a background job, print the run's id and return; `jobs watch RUN` follows it.",
        ),
    ] = False,
    cluster: options.Cluster = None,
    convert: options.Convert = False,
    as_json: options.AsJson = False,
) -> None:
    """Find the region that carries the skill, score its graft, and store the run.

    The run holds predictions of the pre-trained, fine-tuned and grafted model and of the complement (fine-tuned with
    the region put back) on the task's validation and test sets, and the curve of all requested sizes. The dashboard
    shows it. Ctrl-C leaves the run marked as cancelled; `jobs resume RUN` resumes it where it stopped. With --cluster
    it is a job, as with --detach.

    [bold]Examples[/bold]

      python -m skillviz localize --base roberta-base --finetuned models/sst2 --task sst2 --size 0.01%

      python -m skillviz localize --base a/ --finetuned b/ --task task.yaml --size 0.1% 0.01% 1% --method linearized
    """
    is_job, is_shared = detach or cluster is not None, "WORLD_SIZE" in os.environ
    which = "--detach" if detach else "--cluster"
    if is_job and parts:
        raise BadInput(f"--parts needs the finished run; leave out {which}, or run the command parts afterwards.")
    if is_job and is_shared:
        raise BadInput(f"{which} starts one process; leave it out where torchrun starts several.")
    if is_job:
        start_job(spec, Store(store_root(runs_dir)), as_json, backend_named(cluster))
        return
    store = Store(store_root(runs_dir))
    store.refuse_unwritable()
    session = Session()
    plan = planned(spec, session, library(store.root), kind_of(spec.device))
    from skillviz.runs import processes  # imports torch
    from skillviz.runs.produce import follow, made  # imports torch

    try:
        with processes.joined(spec.device):
            if not processes.is_first():
                follow(plan, session)
                processes.leave()
            with progress_bar("localizing", is_whole=False) as advance, gently(reporter(advance)) as progress:
                run = made(plan, session, store, progress)
    except KeyboardInterrupt as interrupt:
        for line in getattr(interrupt, "__notes__", ()):
            note(line)
        raise
    report(run)
    if parts:
        part_scores.report(run, part_scores.scored(run, CELLS, runs_dir))
    if as_json:
        print_json(run_json(run))


def start_job(spec: RunSpec, store: Store, as_json: bool, backend: Backend) -> None:
    """Starts the run as a job and prints its id, alone on the last line."""
    job = jobs.start(spec, store, backend=backend)
    watch = f"python -m skillviz jobs watch {job.run_id}{option_of(store.root)}"
    note(f"Follow it with `{watch}`; it keeps running without this terminal.")
    if as_json:
        print_json({"run_id": job.run_id, "status": job.status, "path": str(job.path)})
    else:
        say(job.run_id)


def read_options(pairs: list[str]) -> dict[str, Any]:
    """The options in `name=value` texts; a value is parsed as JSON if possible. Raises BadInput."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise BadInput(f"'{pair}' is not an option; write --option NAME=VALUE, such as --option examples=512.")
        try:
            values[name.replace("-", "_")] = json_text.loads(value)
        except ValueError:
            values[name.replace("-", "_")] = value
    return values


def reporter(advance: Any) -> Any:
    """A function that shows a run's progress on the bar."""

    def show(progress: Progress) -> None:
        loss = "" if progress.loss is None else f", loss {progress.loss:.3f}"
        advance(progress.done, progress.total, f"{progress.text}{loss}", progress.left)

    return show


def report(run: Run) -> None:
    """Prints the tables of a finished run, its folder, its finding, and the notes on it."""
    print_run(run)
    record = run.record
    for check in record.checks:
        if not check.passed:
            note(f"Self-check failed: {check.name} {check.detail}")
    say(f"Run {run.id}, {sum(record.seconds.values()):.0f} s, stored in {run.path}")
    print_finding(run)
