"""`export` and `apply`: a skill as one small file, and back onto its base."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skillviz.commands import options as given
from skillviz.commands.output import note, print_json, say
from skillviz.commands.runs import RunName
from skillviz.core.localizers.table import rest_of
from skillviz.errors import BadInput, PairMismatch
from skillviz.runs.library import open_run

if TYPE_CHECKING:
    from skillviz.core.graft import Graft
    from skillviz.models.pair import ModelPair
    from skillviz.runs.run import Run

Member = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="Where the model is now, if not where the run found it.", show_default=False),
]


def export(
    run: RunName,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The graft file to write.")] = Path(
        "graft.safetensors"
    ),
    base: Member = None,
    finetuned: Member = None,
    runs_dir: given.RunsDir = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    as_json: given.AsJson = False,
) -> None:
    """Write a run's region with its fine-tuned values as one small file, which turns the base into the skilled model.

    The pair is opened once more for the values; its weights must be those of the run.

    [bold]Example[/bold]

      python -m skillviz export sst2-roberta -o sst2.safetensors
    """
    from skillviz.atomic import write_file

    found = open_run(run, runs_dir)
    if out.exists() and not overwrite:
        raise BadInput(f"{out} exists; name another file, or add --overwrite.")
    if not out.absolute().parent.is_dir():
        raise BadInput(f"there is no folder {out.absolute().parent} to write {out.name} in; make it first.")
    graft = graft_of(found, base, finetuned)
    write_file(out, graft.save)
    size = out.stat().st_size
    say(f"{out}: {graft.region.size:,} of {graft.region.d:,} parameters, {size:,} bytes.")
    if found.spec.dtype != "float32":
        note(
            f"The run was scored with weights rounded to {found.spec.dtype}; the graft holds the fine-tuned values as "
            "stored, so its scores can differ a little from the run's: `evaluate --graft` tells them."
        )
    if as_json:
        print_json(
            {"path": str(out), "run_id": found.id, "size": graft.region.size, "d": graft.region.d, "bytes": size}
        )


def graft_of(run: Run, base: str | None = None, finetuned: str | None = None) -> Graft:
    """The graft of a run's main region, in the narrowest dtype that holds its values exactly.

    Raises PairMismatch where the models at hand are not those of the run, BadInput for a control that is no graft.
    """
    from skillviz.models.pair import NO_GRAFT, load_pair
    from skillviz.runs.session import expanded

    spec = run.spec
    if rest_of(spec.localizer) != "base":
        raise BadInput(NO_GRAFT)
    members = expanded(base or spec.base, "base"), expanded(finetuned or spec.finetuned, "finetuned")
    pair = load_pair(*members, readout=run.record.readout or spec.readout, device="cpu")
    _check_members(run, pair)
    return _narrowed(pair.graft(run.region(), header_of(run)), pair.finetuned_info.dtype)


def header_of(run: Run) -> dict[str, Any]:
    """What a graft says of the run that it comes from."""
    record, task = run.record, run.record.task
    header = {
        "run_id": run.id,
        "localizer": record.spec.localizer,
        "seed": record.spec.seed,
        "task": task.name if task else record.spec.task,
        "labels": list(task.labels) if task else [],
        "metrics": run.headline()["metrics"],
    }
    return {**header, **_asked(run)}


def apply(
    base: given.Base,
    graft: Annotated[
        Path, typer.Option("--graft", metavar="FILE", rich_help_panel=given.MODELS, help="A graft made by export.")
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", rich_help_panel=given.WHERE, help="The folder to write to.")
    ],
    force: Annotated[
        bool, typer.Option("--force", rich_help_panel=given.WHERE, help="Take a base that the graft was not made for.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", rich_help_panel=given.WHERE, help="Replace a folder that is not empty.")
    ] = False,
    as_json: given.AsJson = False,
) -> None:
    """Put a graft onto its base and write an ordinary folder for `from_pretrained`, exact to the bit.

    Outside the region the result is the base, inside it the fine-tuned model; the classification head comes along.

    [bold]Example[/bold]

      python -m skillviz apply --base roberta-base --graft sst2.safetensors --out models/sst2-grafted
    """
    from skillviz.core.graft import Graft
    from skillviz.models import applied as engine
    from skillviz.runs.session import expanded

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


def _check_members(run: Run, pair: ModelPair) -> None:
    """Raises PairMismatch where a member's weights are not those that the run was made with."""
    for word, info, told in (
        ("base", pair.base_info, run.record.base),
        ("finetuned", pair.finetuned_info, run.record.finetuned),
    ):
        if told is not None and told.fingerprint != info.fingerprint:
            raise PairMismatch(
                f"'{info.id}' is not the {word} model of run {run.id}: its weights have the fingerprint "
                f"{info.fingerprint[:12]}, the run's {told.fingerprint[:12]}; name the right one with --{word}."
            )


def _narrowed(graft: Graft, dtype: str) -> Graft:
    """The graft in the fine-tuned file's own dtype where that loses nothing."""
    from dataclasses import replace

    from skillviz.models.load import DTYPES

    kind = DTYPES[dtype]
    tensors = [*graft.values.values(), *graft.head.values()]
    if not all(bool((t.to(kind).to(t.dtype) == t).all()) for t in tensors):
        return graft
    values = {name: tensor.to(kind) for name, tensor in graft.values.items()}
    return replace(graft, values=values, head={name: tensor.to(kind) for name, tensor in graft.head.items()})


def _asked(run: Run) -> dict[str, Any]:
    """Template and label words of a prompt or causal readout; without them such a graft cannot be asked anything."""
    from skillviz.errors import SkillvizError
    from skillviz.runs.session import expanded
    from skillviz.tasks import registry
    from skillviz.tasks.definition import definition, same_definition

    readout = run.record.readout or run.spec.readout
    if readout not in ("prompt", "causal"):
        return {}
    try:
        task = registry.task(expanded(run.spec.task, "task"))
        if run.record.task and not same_definition(run.record.task.definition, definition(task)):
            raise BadInput(f"the definition of the task '{task.name}' has changed since the run was made.")
        template, words = task.asked(readout)
    except SkillvizError as error:
        note(f"The graft will not say its prompt: {error}")
        return {}
    return {"template": template, "label_words": list(words)}
