"""The command line: its commands and how each of them ends."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer
from typer.core import TyperCommand

from skillviz import __version__
from skillviz.commands import (
    checkpoints,
    dashboard,
    evaluate,
    examples,
    finetune,
    graft,
    jobs,
    localize,
    parts,
    preflight,
    process,
    regions,
    reproduce,
    runs,
    slices,
    study,
    work,
)
from skillviz.commands.process import BAD_USE, Commands
from skillviz.runs.process import short_waits

QUIET = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}
"""Settings that stop libraries from drawing over the progress bar. A value set by the user stays."""

ABOUT = """
Find the tiny region of parameters that carries a fine-tuned skill.

Bring a pair of models, a base and its fine-tuned version, and data of the task. [bold]localize[/bold] finds a region:
a small set of parameters whose fine-tuned values give the base the skill. [bold]dashboard[/bold] shows the stored run.
[bold]export[/bold] writes it as one small file, and [bold]apply[/bold] puts that file onto the base.

[bold]Start here[/bold]

  python -m skillviz finetune --base roberta-base --task sst2 --readout prompt --k-shot 64 --out models/sst2
  python -m skillviz localize --base roberta-base --finetuned models/sst2 --task sst2 --size 0.1% 0.01%
  python -m skillviz dashboard
"""


def folded(text: str | None) -> str:
    """Return a help text with each paragraph on one line, for the terminal to wrap; indented ones stay unchanged."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(p if p.startswith("  ") else " ".join(p.split("\n")) for p in paragraphs)


EPILOG = (
    "A model is a folder, a Hugging Face id, or id@revision; only safetensors are read. A task is a built-in "
    "name or a YAML file beside your data (docs/add-a-task.md). Wrong input ends with one sentence and exit code 2."
)

app = typer.Typer(
    cls=Commands, help=folded(ABOUT), epilog=EPILOG, no_args_is_help=True, rich_markup_mode="rich",
    add_completion=False, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip

SKILL, GRAFT, LOOK = "Find a skill", "Share a graft", "Look at runs"
COMMANDS: tuple[tuple[str, Callable[..., None], type[TyperCommand] | None], ...] = (
    (SKILL, preflight.pairs, None),
    (SKILL, preflight.preflight, localize.ManySizes),
    (SKILL, finetune.finetune, None),
    (SKILL, localize.localize, localize.ManySizes),
    (SKILL, evaluate.evaluate, None),
    (SKILL, reproduce.reproduce, None),
    (SKILL, checkpoints.checkpoints, localize.ManySizes),
    (GRAFT, graft.export, None),
    (GRAFT, graft.apply, None),
    (GRAFT, graft.verify_graft, None),
    (GRAFT, graft.difference, None),
    (LOOK, dashboard.dashboard, None),
    (LOOK, runs.report, None),
    (LOOK, parts.parts, None),
    (LOOK, regions.regions, None),
    (LOOK, regions.rivals, None),
    (LOOK, slices.slices, None),
)
"""Panel of the help, command, and the command's class if it parses its arguments in a special way."""

for _panel, _command, _class in COMMANDS:
    _name = _command.__name__.replace("_", "-")
    app.command(_name, rich_help_panel=_panel, cls=_class, help=folded(_command.__doc__))(_command)
app.command("work", hidden=True, help=folded(work.work.__doc__))(work.work)
app.command("work-study", hidden=True, help=folded(work.work_study.__doc__))(work.work_study)
app.command("worker", hidden=True, help=folded(work.worker.__doc__))(work.worker)
app.add_typer(runs.app, name="runs", rich_help_panel=LOOK)
app.add_typer(study.app, name="study", rich_help_panel=SKILL)
app.add_typer(examples.app, name="examples", rich_help_panel=LOOK)
app.add_typer(jobs.app, name="jobs", rich_help_panel=SKILL)


def _version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"skillviz {version('skillviz')}")
        except PackageNotFoundError:
            typer.echo(f"skillviz {__version__}")
        raise typer.Exit


@app.callback()
def skillviz(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    for name, value in {**QUIET, **short_waits()}.items():
        os.environ.setdefault(name, value)


def main() -> None:
    """Run the command given by this process's arguments. At the end, report if its output could not be written."""
    output, _ = process.install()
    try:
        app(prog_name="python -m skillviz")
    except SystemExit as end:
        lost = process.what_was_lost(output)
        if lost and not end.code:
            print(lost, file=sys.stderr)
            sys.exit(BAD_USE)
        raise
