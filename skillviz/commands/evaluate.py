"""`evaluate`: score a region or a graft file on a task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skillviz.commands import options
from skillviz.commands.output import print_json, print_scores, progress_bar, say
from skillviz.core.metrics import metric_row, panels
from skillviz.core.region import Region
from skillviz.models.preflight import preflight as check_pair
from skillviz.show.sentences import metric_difference, verdict
from skillviz.tasks import registry
from skillviz.tasks.project import expanded


def evaluate(
    base: options.Base,
    task: options.TaskName,
    finetuned: Annotated[
        str | None,
        typer.Option(
            "--finetuned", metavar="MODEL", rich_help_panel=options.MODELS, help="May be left out with --graft."
        ),
    ] = None,
    region: Annotated[
        Path | None,
        typer.Option("--region", metavar="FILE", rich_help_panel=options.MODELS, help="A run's region.safetensors."),
    ] = None,
    graft: Annotated[
        str | None,
        typer.Option("--graft", metavar="GRAFT", rich_help_panel=options.MODELS, help=options.GRAFT_HELP),
    ] = None,
    readout: options.ReadoutOption = None,
    k_shot: options.KShot = None,
    data_seed: options.DataSeed = 0,
    max_validation: options.MaxValidation = None,
    max_test: options.MaxTest = None,
    device: options.Device = "auto",
    dtype: options.Dtype = None,
    force: Annotated[
        bool,
        typer.Option("--force", rich_help_panel=options.WHERE, help="Accept a base that the graft was not made for."),
    ] = False,
    convert: options.Convert = False,
    as_json: options.AsJson = False,
) -> None:
    """Score the pre-trained, fine-tuned and grafted model and the complement on a task; store nothing.

    The task may differ from the one on which the region was found; this measures transfer. Temperature scaling is a
    rival only on the model's own task, with validation examples that the model has not seen.

    [bold]Examples[/bold]

      python -m skillviz evaluate --base roberta-base --finetuned models/sst2 --region RUN/region.safetensors --task cr

      python -m skillviz evaluate --base roberta-base --graft sst2.safetensors --task sst2
    """
    asked, named = registry.task(task), readout.value if readout else None
    if region is not None:
        Region.load(region)  # refused before the models are read
    if finetuned is not None:
        check_pair(expanded(base, "base"), expanded(finetuned, "finetuned"), asked, named).raise_first()
    from skillviz.runs import evaluation  # imports torch, which help and the refusals above do not need

    with progress_bar("evaluating") as advance:
        scored = evaluation.evaluate(
            base, finetuned, asked, region=region, graft=graft, readout=named,
            k_shot=k_shot, data_seed=data_seed, max_validation=max_validation, max_test=max_test, device=device,
            dtype=(dtype or options.DtypeName.float32).value, force=force,
            progress=lambda p: advance(p.done, p.total, p.text),
        )  # fmt: skip
    print_scores(scored.scores, scored.metric)
    differences = scored.scores[scored.split].differences
    for name in (name for name in panels(scored.metric) if name in differences):
        less = differences[name]
        words = "" if less.value is None else f", {metric_difference(name, less)}"
        say(f"{metric_row(name).heading}, grafted − fine-tuned on {scored.split}: {verdict(name, less)}{words}.")
    if scored.size is not None:
        say(f"Region: {scored.size:,} of {scored.d:,} graftable parameters ({100 * scored.size / scored.d:.4g}%).")
    for remark in scored.notes:
        say(f"- {remark}")
    if as_json:
        print_json(scored.headline())
