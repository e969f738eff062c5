"""`preflight`: check whether a pair fits and localize would run, before a long computation starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from skillviz.commands import options
from skillviz.commands.localize import NO_TASK, takes_run
from skillviz.commands.output import note, print_json, print_rows, say
from skillviz.commands.process import BAD_USE
from skillviz.core import formats
from skillviz.core.formats import byte_size, counted
from skillviz.core.localizers.table import localizer
from skillviz.errors import BadInput, SkillvizError
from skillviz.jobs.devices import chosen, devices
from skillviz.jobs.slots import kind_of
from skillviz.jobs.slurm import backend_named
from skillviz.models.preflight import Preflight
from skillviz.models.preflight import preflight as check_pair
from skillviz.models.public_pairs import public_pairs
from skillviz.runs.memory import Facts, cost_of, facts_of, peak_bytes
from skillviz.runs.pace import work_words
from skillviz.runs.plan import planned, refused_lean
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, library, store_root
from skillviz.tasks import registry
from skillviz.tasks.project import expanded


@takes_run
def preflight(
    spec: RunSpec,
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="TASK",
            rich_help_panel=options.MODELS,
            help="Also check this task: its data, its labels, and whether the readout works on it.",
        ),
    ] = None,
    cluster: options.Cluster = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            rich_help_panel=options.WHERE,
            help="The memory that the run may take, such as 24GB or 8GiB. Default: what is free on the device.",
        ),
    ] = None,
    runs_dir: options.RunsDir = None,
    convert: options.Convert = False,
    as_json: options.AsJson = False,
) -> None:
    """Check in seconds whether two models make a pair; reads configurations, headers and data, but no weights.

    With --task it takes the options of localize, makes every check that localize makes before it reads weights, and
    says how many examples that run passes through the model and how much memory it needs. Ends with exit code 2 and one
    sentence for each thing that does not fit: architecture, shapes, vocabulary, number of labels, a head that would be
    random.

    [bold]Examples[/bold]

      python -m skillviz preflight --base roberta-base --finetuned models/sst2-64

      python -m skillviz preflight --base roberta-base --finetuned models/sst2-64 --task sst2 --size 0.1% 1%
    """
    has_task = spec.task != NO_TASK
    asked = registry.task(spec.task) if has_task else None
    result = check_pair(expanded(spec.base, "base"), expanded(spec.finetuned, "finetuned"), asked, spec.readout)
    budget = byte_count(memory) if memory else free_bytes(spec.device)
    errors, remarks, session = list(result.errors), result.notes, Session()
    if not errors:
        try:
            remarks = _rehearsed(spec, result, session if has_task else None, runs_dir)
        except SkillvizError as refused:
            errors = [refused]
    errors += _cluster_refusal(cluster)
    for error in errors:
        note(str(error.args[0]))
    if not errors:  # remarks on a pair that cannot be grafted would hide the reason
        for remark in remarks:
            say(remark)
        say(f"The pair fits: {result.readout} readout, {result.d:,} graftable parameters.")
    work = ""
    if has_task and not errors:
        facts = facts_of(spec, session, kind_of(spec.device))
        work = work_words(spec, cost_of(spec, facts), facts.counts, facts.sizes, facts.kinds)
        needed = int(peak_bytes(spec, facts))
        with_nulls = f", with {counted(len(spec.null_searches), 'null')}" if spec.null_searches else ""
        say(f"This localization{with_nulls}: {work}; {byte_size(needed)} of memory.")
        fitting = modes(spec, result, budget, facts)
        say(mode_words(fitting, spec, budget))
    if as_json:
        value = {"fits": not errors, "problems": [str(error.args[0]) for error in errors]}
        if work:
            value |= {"work": work, "bytes": needed, "memory": budget}
            value["modes"] = {mode.name: mode.as_json() for mode in fitting}
        print_json({**value, "notes": list(remarks), "readout": result.readout, "d": result.d})
    if errors:
        raise typer.Exit(BAD_USE)


def _rehearsed(spec: RunSpec, result: Preflight, session: Session | None, runs_dir: Path | None) -> tuple[str, ...]:
    """The remarks on a pair whose headers fit, on its data and its options; found without reading weights.

    Without a task (no session) only the models are checked. Raises the SkillvizError with which localize would
    refuse the run.
    """
    from skillviz.models.device import pick  # imports torch
    from skillviz.models.pair import rehearse  # imports torch

    if session is not None:
        Store(store_root(runs_dir)).refuse_unwritable()
        plan = planned(spec, session, library(runs_dir), pick(spec.device).type)
        session.others(spec)  # raises if their data cannot be read
        return plan.notes
    return rehearse(result)[0].notes


def _cluster_refusal(cluster: options.ClusterName | None) -> list[SkillvizError]:
    """The reason why no job can be submitted to the cluster, as a list of one error; empty if jobs can be submitted."""
    try:
        backend_named(cluster).refuse()
    except SkillvizError as error:
        return [error]
    return []


@dataclass(frozen=True)
class Mode:
    """One way to make the run: its options and its memory at the peak; `refused` is the reason if it cannot be used."""

    name: str
    flags: str
    spec: RunSpec
    bytes: int
    fits: bool
    refused: str = ""

    def as_json(self) -> dict[str, Any]:
        """The mode as plain values for --json."""
        value = {"bytes": self.bytes, "fits": self.fits, "options": self.flags}
        return {**value, **({"refused": self.refused} if self.refused else {})}


def modes(spec: RunSpec, check: Preflight, budget: int, facts: Facts) -> list[Mode]:
    """The run in ordinary mode and in lean mode; the preferred mode comes first."""
    dtype = "float32" if spec.dtype == "own" and spec.lean else spec.dtype
    found = []
    for name, changes in (("ordinary", {"lean": False, "dtype": dtype}), ("lean", {"lean": True, "dtype": "own"})):
        one = spec.model_copy(update=changes)
        needed = int(peak_bytes(one, facts))
        error = refused_lean(localizer(spec.localizer), check) if one.lean else None
        flags = "--lean" if one.lean else f"--dtype {dtype}" if dtype != "float32" else ""
        fits = error is None and needed <= budget
        found.append(Mode(name, flags, one, needed, fits, "" if error is None else str(error.args[0])))
    return found


def mode_words(found: Sequence[Mode], spec: RunSpec, budget: int) -> str:
    """Sentences on the memory that each mode needs and the memory available, and the mode to use."""
    needs = ", ".join(
        f"{mode.name} mode cannot be used" if mode.refused else f"{mode.name} mode needs {byte_size(mode.bytes)}"
        for mode in found
    )
    text = f"Memory: {needs}; {byte_size(budget)} can be used."
    best = next((mode for mode in found if mode.fits), None)
    refused = next((f" {mode.refused[0].upper()}{mode.refused[1:]}" for mode in found if mode.refused), "")
    if best is None:
        return f"{text} Neither fits: take a smaller model, more memory, or several GPUs with --lean.{refused}"
    if best.spec.lean == spec.lean:
        return f"{text} The {best.name} mode fits.{refused}"
    return f"{text} Use {best.flags}.{refused}" if best.flags else f"{text} Leave out --lean: the ordinary mode fits."


def byte_count(typed: str) -> int:
    """The bytes in `24GB`, `8GiB` or `512MiB`; raises BadInput."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT])(i?)B", typed.strip(), re.IGNORECASE)
    if match is None or not float(match[1]):
        raise BadInput(f"'{typed}' is not a size of memory; write a number and a unit, such as 24GB or 8GiB.")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** (1 + "KMGT".index(match[2].upper())))


def free_bytes(device: str) -> int:
    """The memory that is free now on the device that a run would use."""
    available = devices()
    place = chosen(device, available) or available[0]
    return place.free


def pairs(as_json: options.AsJson = False) -> None:
    """List well-known public pairs on the Hugging Face Hub: base, fine-tuned model, task, license and size.

    The list is part of skillviz. Nothing is downloaded until a command uses a pair; its task's data come from the hub,
    too.
    """
    rows = public_pairs()
    columns = ["task", "base", "fine-tuned", "license", "parameters", "weights"]
    cells = [
        [row.task, row.base, row.finetuned, row.license, formats.millions(row.parameters), row.weights] for row in rows
    ]
    print_rows("", columns, cells)
    say(f"Start: {rows[0].localize_command()}")
    pickled = next(command for row in rows if (command := row.convert_command()))
    say(f"Convert bin weights first: {pickled}")
    if as_json:
        print_json({"pairs": [row.model_dump() for row in rows]})
