"""`export` and `apply`: a skill as one small file, and back onto its base."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skillviz.atomic import write_file
from skillviz.commands import options
from skillviz.commands.output import note, print_json, say, writable
from skillviz.commands.runs import RunName
from skillviz.runs.library import open_run
from skillviz.tasks.project import expanded

ModelNow = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="Where the model is now, if it has moved.", show_default=False),
]


def export(
    run: RunName,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The graft file to write.")] = Path(
        "graft.safetensors"
    ),
    base: ModelNow = None,
    finetuned: ModelNow = None,
    runs_dir: options.RunsDir = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a run's region with its fine-tuned values as one small file, which turns the base into the skilled model.

    The pair is opened once more for the values; its weights must be those of the run.

    [bold]Example[/bold]

      python -m skillviz export sst2-roberta -o sst2.safetensors
    """
    from skillviz.runs.graft_of_run import graft_of_run  # imports torch

    stored = open_run(run, runs_dir)
    writable(out, overwrite)
    graft, remarks = graft_of_run(stored, base, finetuned)
    for remark in remarks:
        note(remark)
    write_file(out, graft.save)
    size = out.stat().st_size
    say(f"{out}: {graft.region.size:,} of {graft.region.d:,} parameters, {size:,} bytes.")
    if stored.spec.dtype != "float32":
        note(
            f"The run was scored with weights rounded to {stored.spec.dtype}; the graft holds the fine-tuned values as "
            "stored, so its scores can differ a little from the run's; `evaluate --graft` shows them."
        )
    if as_json:
        print_json(
            {"path": str(out), "run_id": stored.id, "size": graft.region.size, "d": graft.region.d, "bytes": size}
        )


def apply(
    base: options.Base,
    graft: Annotated[
        Path, typer.Option("--graft", metavar="FILE", rich_help_panel=options.MODELS, help="A graft made by export.")
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", rich_help_panel=options.WHERE, help="The folder to write to.")
    ],
    force: Annotated[
        bool,
        typer.Option("--force", rich_help_panel=options.WHERE, help="Accept a base that the graft was not made for."),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", rich_help_panel=options.WHERE, help="Replace a folder that is not empty.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Put a graft onto its base and write an ordinary folder for `from_pretrained`, exact to the bit.

    Outside the region the result is the base, inside it the fine-tuned model; the classification head comes along.

    [bold]Example[/bold]

      python -m skillviz apply --base roberta-base --graft sst2.safetensors --out models/sst2-grafted
    """
    from skillviz.core.graft import Graft  # this and what follows import torch
    from skillviz.models import applied as engine

    loaded = Graft.load(graft)
    engine.refuse_full_folder(out, overwrite, expanded(base, "base"))
    result = engine.applied(expanded(base, "base"), loaded, force=force)
    engine.save_applied(result, out, overwrite=overwrite)
    for remark in result.notes:
        note(remark)
    dtype = str(result.model.dtype).removeprefix("torch.")
    say(f"{out}: the base with {loaded.region.size:,} grafted parameters, stored as {dtype}.")
    if as_json:
        print_json({"path": str(out), "size": loaded.region.size, "d": loaded.region.d, "dtype": dtype})
