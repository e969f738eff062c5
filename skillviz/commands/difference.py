"""`difference`: store a fine-tuned model as its difference from its published base."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skillviz.commands import options
from skillviz.commands.output import print_json, say
from skillviz.core.formats import byte_size, counted
from skillviz.serving import read_only


def difference(
    base: options.Base,
    finetuned: options.Finetuned,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", rich_help_panel=options.WHERE, help="The folder to write to.")
    ],
    hub: Annotated[
        str | None,
        typer.Option(
            "--hub",
            metavar="ORG/NAME",
            rich_help_panel=options.MODELS,
            help="Where the base is published, so that others can download it.",
        ),
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option(
            "--license", metavar="SPDX", rich_help_panel=options.MODELS, help="The base's licence, such as Apache-2.0."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", rich_help_panel=options.WHERE, help="Replace a folder that is not empty.")
    ] = False,
    convert: options.Convert = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a fine-tuned model as a float16 difference from its base: a small folder that is opened with it.

    Values are rounded to float16; tensors equal to the base's and unchanged rows of embeddings are left out. Later
    commands use the rounded model.

    [bold]Example[/bold]

      python -m skillviz difference --base roberta-base --finetuned models/sst2 --out shared/sst2 --hub roberta-base
    """
    read_only.refuse()
    from skillviz.models.applied import refuse_full_folder  # these import torch
    from skillviz.models.difference import write_difference

    refuse_full_folder(out, overwrite, base)
    done = write_difference(base, finetuned, out, hub=hub, licence=licence, replace=overwrite)
    say(
        f"{out}: {counted(done.kept, 'tensor')} as float16, {byte_size(done.bytes)}; {done.left_out} equal the base's "
        "and are left out."
    )
    for name, count in done.rows.items():
        say(f"Of {name} only {counted(count, 'row')} changed, and the others are left out.")
    if as_json:
        print_json({"path": str(out), "kept": done.kept, "left_out": done.left_out, "bytes": done.bytes,
                    "rows": dict(done.rows)})  # fmt: skip
