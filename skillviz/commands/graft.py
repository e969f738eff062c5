"""`export` and `apply`: write a skill as one small file, an adapter or a recipe, and put it back onto its base."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from skillviz.commands import options
from skillviz.commands.output import note, print_json, progress_bar, say, writable
from skillviz.commands.runs import RunName
from skillviz.core.formats import byte_size, counted
from skillviz.core.gain import Gain
from skillviz.core.metrics import metric_row
from skillviz.errors import BadInput
from skillviz.models.publish import check_login, check_repository
from skillviz.runs.run import Run
from skillviz.runs.spec import FIT, KINDS, read_spec
from skillviz.runs.store import open_run
from skillviz.serving import read_only
from skillviz.show.gain import fitted
from skillviz.tasks.project import expanded


class FormatName(StrEnum):
    """The formats that export can write."""

    graft = "graft"
    peft = "peft"
    mergekit = "mergekit"


HUB = "Publishing"
DEFAULT_OUT = {"graft": "graft.safetensors", "peft": "graft-peft", "mergekit": "graft-mergekit"}

ModelNow = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="Where the model is now, if it has moved.", show_default=False),
]


def export(
    run: RunName,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="PATH",
            show_default=False,
            help="The file to write, or for peft and mergekit the folder. Default: graft.safetensors, graft-peft, "
            "graft-mergekit; nothing with --push-to-hub.",
        ),
    ] = None,
    form: Annotated[
        FormatName,
        typer.Option(
            "--format",
            help="graft: the values alone, for apply. peft: an adapter for PeftModel.from_pretrained. mergekit: base, "
            "grafted model and recipe.",
        ),
    ] = FormatName.graft,
    gain: Annotated[
        str | None,
        typer.Option(
            "--gain",
            metavar="1|fit|kinds|VALUE",
            show_default=False,
            help="The values are base + gain x movement. Default: the gain of the run. 1: the fine-tuned values.",
        ),
    ] = None,
    base: ModelNow = None,
    finetuned: ModelNow = None,
    runs_dir: options.RunsDir = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file or folder.")] = False,
    push_to_hub: Annotated[
        str | None,
        typer.Option(
            "--push-to-hub",
            metavar="ORG/NAME",
            rich_help_panel=HUB,
            help="Publish it on the Hugging Face Hub with a model card. Without this option nothing is sent.",
        ),
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", rich_help_panel=HUB, help="Make a new repository private.")
    ] = False,
    revision: Annotated[
        str | None,
        typer.Option("--revision", metavar="BRANCH", rich_help_panel=HUB, help="The branch to publish to."),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option("--commit-message", metavar="TEXT", rich_help_panel=HUB, help="The message of the commit."),
    ] = None,
    base_model: Annotated[
        str | None,
        typer.Option(
            "--base-model",
            metavar="ORG/NAME",
            rich_help_panel=HUB,
            help="The base's id on the Hub, for the card, where the run only knows a folder.",
        ),
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option(
            "--license",
            metavar="SPDX",
            rich_help_panel=HUB,
            help="The base's license, for the card, such as apache-2.0.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", rich_help_panel=HUB, help="Show the files and the card; send nothing."),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a run's graft: the region with its values, which turns the base into the skilled model.

    The pair is opened once more for the values; its weights must be the run's. docs/export.md says which format to use
    when.

    [bold]Examples[/bold]

      python -m skillviz export sst2-roberta -o sst2.safetensors

      python -m skillviz export sst2-roberta --format peft -o sst2-adapter

      python -m skillviz export sst2-roberta --push-to-hub my-name/sst2-graft --dry-run
    """
    read_only.refuse()
    stored = open_run(run, runs_dir)
    wanted = None if gain is None else _gain(stored, gain)
    _check_hub_options(push_to_hub, form, private, revision, message, dry_run)
    if push_to_hub and not dry_run:
        check_login(push_to_hub)
    from skillviz.models.applied import refuse_full_folder  # these import torch
    from skillviz.runs import export as engine

    target = out or (None if push_to_hub else Path(DEFAULT_OUT[form]))
    if form is FormatName.graft:
        writable(target, overwrite)
    elif target is not None:
        refuse_full_folder(target, overwrite, expanded(base or stored.spec.base, "base"))
    name = push_to_hub or (target.name if target else "")
    request = engine.ExportRequest(form.value, name, base, finetuned, wanted, base_model, licence)
    done = engine.export(
        stored, request, target, overwrite, engine.Hub(push_to_hub, private, revision, message, dry_run)
    )
    for remark in done.remarks:
        note(remark)
    size, d = done.size, done.d
    if target is not None:
        say(f"{target}: {size:,} of {d:,} parameters, {done.bytes:,} bytes.")
    if push_to_hub and dry_run:
        say(f"{push_to_hub} would get these files. Nothing was sent.")
        for file, length in done.files.items():
            say(f"  {file}: {length:,} bytes")
        say()
        say(done.card)
    elif done.url:
        say(f"{done.url}: published, {size:,} of {d:,} parameters, {done.bytes:,} bytes.")
    is_tuned = (stored.record.gain if wanted is None else wanted) == 1
    if stored.spec.dtype not in ("float32", "own") and is_tuned:
        note(
            f"The run was scored with weights rounded to {stored.spec.dtype}; the graft holds the fine-tuned values as "
            "stored, so its scores can differ a little from the run's. `evaluate --graft` computes them."
        )
    if as_json:
        where = {"path": None if target is None else str(target), "url": done.url, "format": form.value}
        print_json({**where, "run_id": stored.id, "size": size, "d": d, "bytes": done.bytes})


def _gain(run: Run, text: str) -> Gain:
    """The requested gain; raises BadInput if a fitted one is requested and the run has none."""
    wanted, note = read_spec({**run.spec.model_dump(), "gain": text}).gain, fitted(run.record)
    if not isinstance(wanted, str):
        return wanted
    if wanted == FIT and note is not None and note.fitted is not None:
        return note.fitted
    if wanted == KINDS and note is not None and note.by_kind:
        return {one.kind: one.fitted for one in note.by_kind}
    again, by = run.spec.model_copy(update={"gain": wanted}).command(), " by module kind" if wanted == KINDS else ""
    raise BadInput(f"the run {run.id} has no fitted gain{by}. Give a number, or make the run with one: `{again}`.")


def _check_hub_options(
    name: str | None, form: FormatName, private: bool, revision: str | None, message: str | None, dry_run: bool
) -> None:
    """Raises BadInput for options that do not go together, and for an invalid repository name."""
    given = {"--private": private, "--revision": revision, "--commit-message": message, "--dry-run": dry_run}
    if name is None:
        if alone := [option for option, value in given.items() if value]:
            raise BadInput(f"{alone[0]} only applies with --push-to-hub. Add --push-to-hub org/name, or leave it out.")
        return
    if form is FormatName.mergekit:
        raise BadInput(
            "--format mergekit writes whole models, which are not published as a graft. Publish --format graft or "
            "peft, or upload the merged model with `hf upload`."
        )
    check_repository(name)


def verify_graft(
    graft: Annotated[
        str, typer.Argument(metavar="GRAFT", help=f"A folder with a graft and its card. {options.GRAFT_HELP}")
    ],
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            metavar="MODEL",
            rich_help_panel=options.MODELS,
            help="The base, if neither card nor graft names it on the Hub.",
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="TASK",
            rich_help_panel=options.MODELS,
            help="The task, if the graft names no built-in one or its data are in another place.",
        ),
    ] = None,
    device: options.Device = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Remake the scores of a published graft from its base and data, and say whether its card's numbers hold.

    Exit code 0: all hold. 1: one differs. 2: they cannot be remade, and a sentence says why. A number of n examples may
    differ by 2 / n, as other hardware may decide near ties the other way, and by the card's rounding.

    [bold]Examples[/bold]

      python -m skillviz verify-graft my-name/sst2-graft

      python -m skillviz verify-graft sst2-graft --base roberta-base --task task.yaml
    """
    from skillviz.runs import verify_graft as engine  # imports torch

    with progress_bar("verifying") as advance:
        found = engine.verify_graft(
            graft, base=base, task=task, device=device, progress=lambda p: advance(p.done, p.total, p.text)
        )
    for claim in found.claims:
        says = "holds" if claim.holds else "differs"
        heading = metric_row(claim.metric).heading
        say(f"{heading}: {found.source} {claim.claimed:.4f}, remade {claim.remade:.4f}: {says}.")
    say(f"On {counted(found.n, 'example')} of the {found.split} set.")
    for remark in found.notes:
        note(remark)
    if as_json:
        claims = [{**asdict(claim), "holds": claim.holds} for claim in found.claims]
        print_json({"holds": found.holds, "split": found.split, "n": found.n, "source": found.source, "claims": claims})
    if not found.holds:
        raise typer.Exit(1)


def apply(
    base: options.Base,
    graft: Annotated[
        str, typer.Option("--graft", metavar="GRAFT", rich_help_panel=options.MODELS, help=options.GRAFT_HELP)
    ],
    out: options.OutFolder,
    force: Annotated[
        bool,
        typer.Option("--force", rich_help_panel=options.WHERE, help="Accept a base that the graft was not made for."),
    ] = False,
    overwrite: options.Overwrite = False,
    convert: options.Convert = False,
    as_json: options.AsJson = False,
) -> None:
    """Put a graft onto its base and write an ordinary folder for `from_pretrained`, exact to the bit.

    Outside the region the result is the base, inside it the fine-tuned model; the fine-tuned classification head is
    included.

    [bold]Examples[/bold]

      python -m skillviz apply --base roberta-base --graft sst2.safetensors --out models/sst2-grafted

      python -m skillviz apply --base roberta-base --graft my-name/sst2-graft --out models/sst2-grafted
    """
    read_only.refuse()
    from skillviz.core.graft import Graft  # this and the next two import torch
    from skillviz.models import applied as engine
    from skillviz.models.fetch import graft_file

    loaded = Graft.load(graft_file(graft))
    engine.refuse_full_folder(out, overwrite, expanded(base, "base"))
    result = engine.applied(expanded(base, "base"), loaded, force=force)
    engine.save_applied(result, out, overwrite=overwrite)
    for remark in result.notes:
        note(remark)
    dtype = str(result.model.dtype).removeprefix("torch.")
    say(f"{out}: the base with {loaded.region.size:,} grafted parameters, stored as {dtype}.")
    if as_json:
        print_json({"path": str(out), "size": loaded.region.size, "d": loaded.region.d, "dtype": dtype})


def difference(
    base: options.Base,
    finetuned: options.Finetuned,
    out: options.OutFolder,
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
    overwrite: options.Overwrite = False,
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
