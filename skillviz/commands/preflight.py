"""`preflight`: does this pair fit, before anything long is started?"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from skillviz.commands import options
from skillviz.commands.exit_codes import BAD_USE
from skillviz.commands.output import print_json, say
from skillviz.errors import SkillvizError
from skillviz.jobs.slots import slot_of
from skillviz.models.preflight import preflight as check_pair
from skillviz.runs.estimate import Estimate, estimate, facts_of
from skillviz.runs.library import library
from skillviz.runs.spec import read_spec
from skillviz.tasks import registry


def preflight(
    base: options.Base,
    finetuned: options.Finetuned,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="TASK", rich_help_panel=options.MODELS, help="Check the number of labels too."),
    ] = None,
    readout: options.ReadoutOption = None,
    as_json: options.AsJson = False,
) -> None:
    """Check in a second whether two models make a pair; reads only configurations and safetensors headers.

    With --task it also says about how long a localization by default will take and how much memory it needs.
    Ends with exit code 2 and one sentence for each thing that does not fit: architecture, shapes, vocabulary,
    number of labels, a head that would be random.

    [bold]Example[/bold]

      python -m skillviz preflight --base roberta-base --finetuned models/sst2-64 --task sst2
    """
    result = check_pair(base, finetuned, registry.task(task) if task else None, readout.value if readout else None)
    for problem in result.problems:
        typer.echo(str(problem), err=True)
    if not result.problems:  # remarks on a pair that cannot be grafted would bury why
        for remark in result.notes:
            say(remark)
        say(f"The pair fits: {result.readout} readout, {result.d:,} graftable parameters.")
    expected = expect(base, finetuned, task, readout) if task and not result.problems else None
    if expected is not None:
        say(f"A localization by default takes {expected.words()}.")
    if as_json:
        value = {"fits": not result.problems, "problems": [str(p) for p in result.problems]}
        if expected is not None:
            value |= {"seconds": round(expected.seconds, 1), "bytes": expected.bytes}
        print_json({**value, "notes": list(result.notes), "readout": result.readout, "d": result.d})
    if result.problems:
        raise typer.Exit(BAD_USE)


def expect(base: str, finetuned: str, task: str, readout: options.ReadoutName | None) -> Estimate | None:
    """What a localization by default will take on this machine; None where the task's data are not at hand."""
    spec = read_spec({"base": base, "finetuned": finetuned, "task": task, "readout": readout and readout.value})
    with suppress(SkillvizError):
        facts = facts_of(spec, slot_of(spec.device).partition("-")[0])
        return estimate(spec, facts, [run.record for run in library().list()])
    return None
