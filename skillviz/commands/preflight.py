"""`preflight`: does this pair fit, and would localize run, before anything long is started?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skillviz.commands import options
from skillviz.commands.cluster import backend_of
from skillviz.commands.exit_codes import BAD_USE
from skillviz.commands.localize import spec_of
from skillviz.commands.output import print_json, say
from skillviz.core.localizers.table import DEFAULT_LOCALIZER
from skillviz.errors import SkillvizError
from skillviz.jobs.control import refuse_cluster
from skillviz.jobs.slots import slot_of
from skillviz.models.preflight import Preflight
from skillviz.models.preflight import preflight as check_pair
from skillviz.runs.estimate import Estimate, estimate, facts_of
from skillviz.runs.library import library
from skillviz.runs.spec import RunSpec
from skillviz.tasks import registry
from skillviz.tasks.project import expanded


def preflight(
    ctx: typer.Context,
    base: options.Base,
    finetuned: options.Finetuned,
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="TASK",
            rich_help_panel=options.MODELS,
            help="Check this task too: its data, its labels and whether the readout can ask it.",
        ),
    ] = None,
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
    interpolation: options.Interpolation = False,
    also: options.Also = None,
    device: options.Device = "auto",
    dtype: options.Dtype = None,
    lean: options.Lean = False,
    autocast: options.AutocastOption = None,
    cluster: options.Cluster = None,
    runs_dir: options.RunsDir = None,
    convert: options.Convert = False,
    as_json: options.AsJson = False,
) -> None:
    """Check in seconds whether two models make a pair; reads configurations, headers and data, but no weights.

    With --task it takes the options of localize, makes every check that localize makes before it reads weights, and
    says about how long that run takes and how much memory it needs. Ends with exit code 2 and one sentence for each
    thing that does not fit: architecture, shapes, vocabulary, number of labels, a head that would be random.

    [bold]Examples[/bold]

      python -m skillviz preflight --base roberta-base --finetuned models/sst2-64

      python -m skillviz preflight --base roberta-base --finetuned models/sst2-64 --task sst2 --size 0.1% 1%
    """
    spec = spec_of({**ctx.params, "task": task or "no task"})
    asked = registry.task(task) if task else None
    result = check_pair(expanded(base, "base"), expanded(finetuned, "finetuned"), asked, spec.readout)
    errors = list(result.errors) or _refusal(spec, result, runs_dir, is_whole=task is not None)
    errors += _cluster_refusal(cluster)
    for error in errors:
        typer.echo(str(error.args[0]), err=True)
    if not errors:  # remarks on a pair that cannot be grafted would bury why
        for remark in result.notes:
            say(remark)
        say(f"The pair fits: {result.readout} readout, {result.d:,} graftable parameters.")
    expected = expect(spec, result, runs_dir) if task and not errors else None
    if expected is not None:
        say(f"This localization takes {expected.words()}.")
    if as_json:
        value = {"fits": not errors, "problems": [str(error.args[0]) for error in errors]}
        if expected is not None:
            value |= {"seconds": round(expected.seconds, 1), "bytes": expected.bytes}
            value |= dict(
                zip(("least_seconds", "most_seconds"), (round(one, 1) for one in expected.range), strict=True)
            )
        print_json({**value, "notes": list(result.notes), "readout": result.readout, "d": result.d})
    if errors:
        raise typer.Exit(BAD_USE)


def _refusal(spec: RunSpec, result: Preflight, runs_dir: Path | None, is_whole: bool) -> list[SkillvizError]:
    """The first thing for which localize would refuse a pair whose headers fit, made without weights; empty for none.

    Without a task (`is_whole` False) only the models are made.
    """
    from skillviz.models.pair import rehearse  # imports torch
    from skillviz.runs.produce import prepare  # imports torch
    from skillviz.runs.session import Session  # imports torch

    try:
        if is_whole:
            prepare(spec, Session(), library(runs_dir))
        else:
            rehearse(result)
    except SkillvizError as error:
        return [error]
    return []


def _cluster_refusal(cluster: options.ClusterName | None) -> list[SkillvizError]:
    """Why nothing can be submitted to the cluster; empty for none."""
    try:
        refuse_cluster(backend_of(cluster))
    except SkillvizError as error:
        return [error]
    return []


def expect(spec: RunSpec, result: Preflight, runs_dir: Path | None) -> Estimate:
    """What the localization will take on this machine."""
    facts = facts_of(spec, slot_of(spec.device).partition("-")[0], result)
    return estimate(spec, facts, [run.record for run in library(runs_dir).list()])
