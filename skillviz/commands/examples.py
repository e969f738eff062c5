"""`examples`: the bundled pairs and runs, and building them from base models and data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skillviz.commands import options
from skillviz.commands.finetune import interruptible, shown
from skillviz.commands.localize import reporter
from skillviz.commands.output import print_json, print_rows, progress_bar, say
from skillviz.commands.parts import scored
from skillviz.core.formats import byte_size
from skillviz.core.metrics import metric_row
from skillviz.models.checkpoint import SINGLE
from skillviz.models.examples import ExamplePair
from skillviz.models.fetch import build_command
from skillviz.runs.example_runs import ExampleRun, chosen, make_pair, make_run
from skillviz.runs.part_scores import stored_parts
from skillviz.runs.process import gently
from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.store import Store, library, store_root
from skillviz.serving import read_only
from skillviz.tasks import registry
from skillviz.tasks.project import located

app = typer.Typer(help="List or build the example pairs and their runs.", no_args_is_help=True)


@app.callback()
def examples() -> None:
    """List or build the example pairs and their runs."""


@app.command("list")
def list_examples(runs_dir: options.RunsDir = None, as_json: options.AsJson = False) -> None:
    """List the example pairs and their runs: which are here, and the command that builds each of the others."""
    pairs, runs = chosen(())
    found = {run.name: _stored(run, runs_dir) for run in runs}
    rows = [[pair.name, pair.title, pair.task, _state(pair)] for pair in pairs]
    print_rows("pairs", ["name", "what", "task", "fine-tuned model"], rows)
    ids = [[name, made.id if made else f"not built here: {build_command(name)}"] for name, made in found.items()]
    print_rows("runs", ["name", "run"], ids)
    if as_json:
        built = [{**pair.model_dump(), "finetuned": pair.finetuned, "built": pair.is_built} for pair in pairs]
        print_json({"pairs": built, "runs": {name: made and made.id for name, made in found.items()}})


@app.command()
def build(
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="NAME", help="A pair with its runs, or one run as pair/run; several times. Default: all."
        ),
    ] = None,
    without_runs: Annotated[bool, typer.Option("--without-runs", help="Only fine-tune the models.")] = False,
    runs_dir: options.RunsDir = None,
    device: options.Device = "auto",
) -> None:
    """Build example pairs and their runs from base models and data; skip what is finished.

    An interrupted training or run resumes where it stopped. The runs that ship are in cached_runs
    (--runs-dir cached_runs). A pair takes about an hour on two cores, and its runs some hours; docs/examples.md says
    what each is for.

    [bold]Example[/bold]

      python -m skillviz examples build --only mr-sgd
    """
    read_only.refuse()
    pairs, runs = chosen(only or ())
    store = Store(store_root(runs_dir))
    store.refuse_unwritable()
    for pair in pairs:
        if not pair.is_built:
            with interruptible() as advance:
                make_pair(pair, shown(advance, metric_row(registry.task(pair.task).metric).title), device)
        say(f"{pair.name}: {_state(pair)}")
    session = Session()
    for run in () if without_runs else runs:
        made = _stored(run, runs_dir)
        if made is None:
            with progress_bar(run.name, is_whole=False) as advance, gently(reporter(advance)) as progress:
                made = make_run(run, store, progress, session)
        for grouping, sample in run.parts.items():
            if stored_parts(library(runs_dir), made, grouping) is None:
                scored(made, grouping, runs_dir, sample)
        say(f"{run.name}: {made.id}")


def _state(pair: ExamplePair) -> str:
    """`examples/pairs/mr-sgd, 21 MiB`, or the command that builds it."""
    if not pair.is_built:
        return f"not built here: {pair.command}"
    return f"{pair.finetuned}, {byte_size((located(pair.finetuned) / SINGLE).stat().st_size)}"


def _stored(run: ExampleRun, runs_dir: Path | None) -> Run | None:
    """The finished run, from the user's store or from the bundled runs."""
    return next((made for store in library(runs_dir).stores if (made := run.stored(store))), None)
