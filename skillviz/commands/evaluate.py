"""`evaluate`: score a region or a graft file on a task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skillviz.commands import options as given
from skillviz.commands.output import print_json, print_scores, say


def evaluate(
    base: given.Base,
    task: given.TaskName,
    finetuned: Annotated[
        str | None,
        typer.Option(
            "--finetuned", metavar="MODEL", rich_help_panel=given.MODELS, help="May be left out with --graft."
        ),
    ] = None,
    region: Annotated[
        Path | None,
        typer.Option("--region", metavar="FILE", rich_help_panel=given.MODELS, help="A run's region.safetensors."),
    ] = None,
    graft: Annotated[
        Path | None,
        typer.Option("--graft", metavar="FILE", rich_help_panel=given.MODELS, help="A graft made by export."),
    ] = None,
    readout: given.ReadoutOption = None,
    k_shot: given.KShot = None,
    data_seed: given.DataSeed = 0,
    max_validation: given.MaxValidation = None,
    max_test: given.MaxTest = None,
    device: given.Device = "auto",
    dtype: given.Dtype = given.DtypeName.float32,
    force: Annotated[
        bool, typer.Option("--force", rich_help_panel=given.WHERE, help="Take a base that the graft was not made for.")
    ] = False,
    as_json: given.AsJson = False,
) -> None:
    """Score the pre-trained, fine-tuned and grafted model and the complement on a task, with intervals; store nothing.

    The task may be another one than the region was found on: that is how transfer is measured.

    [bold]Examples[/bold]

      python -m skillviz evaluate --base roberta-base --finetuned models/sst2 --region RUN/region.safetensors --task cr

      python -m skillviz evaluate --base roberta-base --graft sst2.safetensors --task sst2
    """
    from skillviz.runs import evaluation  # torch is loaded here alone, so that help stays quick

    found = evaluation.evaluate(
        base, finetuned, task, region=region, graft=graft, readout=readout.value if readout else None, k_shot=k_shot,
        data_seed=data_seed, max_validation=max_validation, max_test=max_test, device=device, dtype=dtype.value,
        force=force,
    )  # fmt: skip
    print_scores(found.scores, found.metric)
    if found.size is not None:
        say(f"Region: {found.size:,} of {found.d:,} graftable parameters ({100 * found.size / found.d:.4g} %).")
    for remark in found.notes:
        say(f"- {remark}")
    if as_json:
        print_json(found.headline())
