"""`preflight`: does this pair fit, before anything long is started?"""

from __future__ import annotations

from typing import Annotated

import typer

from skillviz.commands import options as given
from skillviz.commands.ending import BAD_USE
from skillviz.commands.output import print_json, say


def preflight(
    base: given.Base,
    finetuned: given.Finetuned,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="TASK", rich_help_panel=given.MODELS, help="Check the number of labels too."),
    ] = None,
    readout: given.ReadoutOption = None,
    as_json: given.AsJson = False,
) -> None:
    """Say whether two models make a pair, reading only their configuration and safetensors headers.

    Ends with exit code 2 and one sentence for each thing that does not fit: architecture, shapes, vocabulary,
    number of labels, a head that would be random.

    [bold]Example[/bold]

      python -m skillviz preflight --base roberta-base --finetuned models/sst2-64 --task sst2
    """
    from skillviz.models import preflight as engine
    from skillviz.tasks import registry

    found = engine.preflight(base, finetuned, registry.task(task) if task else None, readout.value if readout else None)
    for problem in found.problems:
        typer.echo(str(problem), err=True)
    for remark in found.notes:
        say(remark)
    if not found.problems:
        say(f"The pair fits: {found.readout} readout, {found.d:,} graftable parameters.")
    if as_json:
        value = {"fits": not found.problems, "problems": [str(p) for p in found.problems]}
        print_json({**value, "notes": list(found.notes), "readout": found.readout, "d": found.d})
    if found.problems:
        raise typer.Exit(BAD_USE)
