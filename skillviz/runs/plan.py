"""The one door to a run: from its spec to a checked plan. Commands, pages, jobs, studies and Python all call it.

`checked_spec` reads headers alone, `planned` also the data. Neither needs weights or torch, but encoding texts imports
it.

A spec is refused here, before a run exists, if its localizer, task, modes or region expression do not fit together. Run
ids in expressions are given in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from skillviz import json_text
from skillviz.core.encoded import encoding_notes
from skillviz.core.localizers.table import (
    EXPRESSION,
    LEAN_CANDIDATES,
    LOCALIZERS,
    MODEL,
    OUTPUTS,
    Localizer,
    MovementOptions,
    localizer,
    makes_graft,
    matches_outputs,
)
from skillviz.core.parameters import ParameterTable
from skillviz.core.region import Region
from skillviz.core.region_expression import (
    ALGEBRA,
    RegionExpression,
    Stored,
    canonical,
    parsed,
    parts,
    region_of,
    runs_in,
)
from skillviz.core.size import parse_size
from skillviz.errors import BadInput, BadSize, RunNotFound
from skillviz.models.adapters import refuse_region
from skillviz.models.preflight import INSTEAD, Preflight, lean_refusal, preflight
from skillviz.runs.held_out import FEWEST, why_not
from skillviz.runs.provenance import task_note
from skillviz.runs.record import TaskNote
from skillviz.runs.run import RANKING, REGION, Run
from skillviz.runs.session import Session
from skillviz.runs.spec import KEY, NO_NULLS, RunSpec, key_in, words_of_region
from skillviz.runs.store import Library
from skillviz.runs.transfer import OtherTexts, refuse_unfit
from skillviz.tasks.project import expanded
from skillviz.tasks.task import GENERATION, Task

EXAMPLE = """--option 'expression={"layers": [0, 1], "kinds": ["value"]}'"""


@dataclass(frozen=True)
class ResolvedExpression:
    """A checked expression with full run ids, the size of its region, and the runs whose regions it uses."""

    expression: dict[str, Any]
    size: int
    stored: Stored
    sources: tuple[dict[str, Any], ...]

    @property
    def text(self) -> str:
        """The expression as canonical JSON."""
        return canonical(self.expression)


def resolved_expression(options: Mapping[str, Any], table: ParameterTable, runs: Library) -> ResolvedExpression:
    """Return the region described by the option `expression` among the table's parameters.

    Raises BadInput if there is no expression, or if it cannot be read, fits another architecture or has no entry;
    RunNotFound if it names an unknown run.
    """
    if EXPRESSION not in options:
        raise BadInput(f"the localizer 'expression' needs its option 'expression', such as {EXAMPLE}.")
    expression = in_full(parsed(options[EXPRESSION]), runs)
    stored = stored_in(runs)
    size = sum(len(entries) for _, entries in parts(expression, table, stored))
    if not size:
        text = canonical(expression)
        text = text if len(text) <= 80 else text[:77] + "..."
        raise BadInput(f"{text} describes a region without entries; choose other layers, kinds or rows.")
    return ResolvedExpression(
        expression, size, stored, tuple(source_of(runs.open(run_id)) for run_id in runs_in(expression))
    )


def outside_of(
    spec: RunSpec, row: Localizer, table: ParameterTable, sizes: Sequence[int], runs: Library
) -> tuple[Region | None, tuple[dict[str, Any], ...]]:
    """Return the region that the spec's search must not use, or None, and the runs whose regions it uses.

    Raises BadInput for a localizer that does not choose by movement, BadSize if fewer entries are left than requested,
    and the errors of `resolved_expression`.
    """
    if not spec.outside:
        return None, ()
    if not row.has_null:
        names = ", ".join(name for name, other in LOCALIZERS.items() if other.has_null)
        raise BadInput(
            f"the localizer '{row.name}' does not choose entries by their movement, so it cannot be kept out of a "
            f"region; use one of {names}, or leave --outside out."
        )
    resolved = resolved_expression({EXPRESSION: spec.outside}, table, runs)
    region = region_of(resolved.expression, table, resolved.stored)
    if row.budgeted and max(sizes) > (left := region.d - region.size):
        raise BadSize(f"{max(sizes):,} entries were requested, and {left:,} are outside {resolved.text}; ask for less.")
    return region, resolved.sources


def stored_in(runs: Library) -> Stored:
    """Return a function for the region of a library's run: the main one, or the first entries of its ranking."""

    def stored(run_id: str, size: int | None) -> Region:
        run = runs.open(run_id)
        return run.region() if size is None else run.cut(size)

    return stored


def in_full(expression: RegionExpression, runs: Library) -> dict[str, Any]:
    """Return the expression with full run ids, since the beginning of an id may later match another run."""
    if "run" in expression:
        return {**expression, "run": runs.open(expression["run"]).id}
    return {
        key: [in_full(part, runs) for part in value] if key in ALGEBRA else value for key, value in expression.items()
    }


def keys_in(expression: Any) -> list[str]:
    """Return the spec keys that an expression names as `key:...`, at any depth."""
    expression = read_expression(expression)
    if isinstance(expression, dict):
        run = expression.get("run")
        keys = [run.removeprefix(KEY)] if isinstance(run, str) and run.startswith(KEY) else []
        return keys + [key for name, part in expression.items() if name != "run" for key in keys_in(part)]
    return [key for part in expression for key in keys_in(part)] if isinstance(expression, list | tuple) else []


def read_expression(expression: Any) -> Any:
    """Return an expression, parsed if it was given as JSON."""
    if not isinstance(expression, str):
        return expression
    try:
        return json_text.loads(expression)
    except ValueError:
        return expression


def source_of(run: Run) -> dict[str, Any]:
    """Return the identification of a stored region: the run, its files' hashes, and the pair on which it was found."""
    models = {"base": run.record.base, "finetuned": run.record.finetuned}
    hashes = {"region": run.record.files.get(REGION), "ranking": run.record.files.get(RANKING)}
    return {
        "run": run.id,
        **{f"{name}_sha256": note.sha256 if note else "" for name, note in hashes.items()},
        **{f"{name}_fingerprint": note.fingerprint if note else "" for name, note in models.items()},
    }


LEAVE_OUT = "leave CUDA graphs out"


def refuse_unsuited(spec: RunSpec, task: Task, check: Preflight, device: str = "") -> None:
    """Raise BadInput if the pair has no region to graft, or the localizer cannot be used on the task or in the modes.

    `device` is the kind of device that the run will use, if known.
    """
    refuse_region(check.finetuned)
    row = localizer(spec.localizer)
    error = (
        (refused_lean(row, check) if spec.lean else None)
        or (refused_graphs(row, device or spec.device, spec.lean, check) if spec.cuda_graphs else None)
        or refused_generation(row, task)
        or refused_gain(spec, task)
    )
    if error is not None:
        raise error


def refused_lean(row: Localizer, check: Preflight | None) -> BadInput | None:
    """Return the reason against lean mode for a localizer or pair, as far as the pair is known, or None."""
    if not row.lean:
        names = ", ".join(name for name, other in LOCALIZERS.items() if other.lean)
        return BadInput(
            f"the localizer '{row.name}' keeps numbers for every parameter, which lean mode has no room for; use one "
            f"of {names}, or {INSTEAD}."
        )
    return None if check is None else lean_refusal(check)


def refused_graphs(row: Localizer, device: str, is_lean: bool, check: Preflight | None) -> BadInput | None:
    """Return the reason against recording a search's passes as CUDA graphs, as far as is known, or None."""
    if device == "cpu":
        return BadInput(f"CUDA graphs need a GPU, and this run is on the CPU; {LEAVE_OUT}, or choose a GPU.")
    if is_lean:
        return BadInput("lean mode cannot record CUDA graphs; leave one of the two out.")
    if row.compares_answers:
        return BadInput(
            f"the localizer '{row.name}' takes gradients of single examples, which CUDA graphs do not record; "
            f"{LEAVE_OUT}, or use another localizer."
        )
    if check is not None and check.readout == "causal":
        return BadInput(f"the causal readout cannot be recorded as CUDA graphs; {LEAVE_OUT}, or use another readout.")
    return None


def refused_gain(spec: RunSpec, task: Task) -> BadInput | None:
    """Return the reason against a gain other than 1 for a localizer or task; None if there is none."""
    if spec.gain == 1:
        return None
    if not makes_graft(spec.localizer):
        return BadInput(f"the localizer '{spec.localizer}' makes no graft, so it has no gain; leave --gain out.")
    if task.kind == GENERATION:
        return BadInput("a gain needs a task with classes or options, and this one has references; leave --gain out.")
    return None


def refused_options(options: Any, task: Task, is_lean: bool) -> BadInput | None:
    """Return the reason against a localizer's options for a task or in lean mode; None if there is none."""
    if matches_outputs(options) and task.kind == GENERATION:
        return BadInput(
            f"match={OUTPUTS} needs a task with classes or options, and this one has references; leave it out."
        )
    if getattr(options, "texts", "") and not (matches_outputs(options) and task.has_classes):
        return BadInput(
            f"the option texts needs match={OUTPUTS}, as labels of those texts are not used, and a task with classes; "
            f"leave it out, or add match={OUTPUTS}."
        )
    if isinstance(options, MovementOptions) and options.other_models:
        if is_lean:
            return BadInput("in lean mode movement is compared within one model; leave other_models out, or lean mode.")
        if options.per != MODEL:
            return BadInput(f"other_models compares parameters of the whole model; leave it out, or per={options.per}.")
    if is_lean and getattr(options, "is_averaged", False):
        return BadInput(
            "in lean mode first-order takes one gradient at the base; leave points and weigh out, or lean mode."
        )
    return None


def refused_generation(row: Localizer, task: Task) -> BadInput | None:
    """Return the reason against a localizer for a task with references; None if there is none, and for other tasks."""
    if not row.compares_answers or task.kind != GENERATION:
        return None
    names = ", ".join(name for name, other in LOCALIZERS.items() if other.is_search and not other.compares_answers)
    return BadInput(
        f"the localizer '{row.name}' compares the scores of several answers, and "
        f"{'a text that is generated' if task.generates else 'each example'} has one reference; use another, such as "
        f"{names}."
    )


@dataclass(frozen=True, kw_only=True)
class CheckedSpec:
    """A run as far as headers and task files tell, with notes on its options.

    `sizes` are in entries. `base_region` is the region that the localizer's option names, `resolved` the expression of
    a region that is described, `outside` the region that the search must not use; `sources` identify the runs of all
    three.
    """

    spec: RunSpec
    row: Localizer
    options: Any
    sizes: tuple[int, ...]
    notes: tuple[str, ...]
    base_region: Region | None
    resolved: ResolvedExpression | None
    outside: Region | None
    sources: tuple[dict[str, Any], ...]

    @property
    def size(self) -> int | None:
        """The entries of the main region; None if the localizer decides."""
        return self.sizes[0] if self.row.budgeted or self.resolved else None


@dataclass(frozen=True, kw_only=True)
class RunPlan(CheckedSpec):
    """A run as far as it is known before weights are read: also the note on its data, and all notes it will store.

    `texts` are the training texts of another task that its search uses, if it does.
    """

    task: TaskNote
    texts: OtherTexts | None


def planned(spec: RunSpec, session: Session, runs: Library, device: str = "") -> RunPlan:
    """Return the plan of a spec with its data, and all notes that its run will store before weights are read.

    Raises SkillvizError if the run would be refused. See `checked_spec` for `runs` and `device`.
    """
    found = checked_spec(spec, session.task(spec), session.other_tasks(spec), session.preflight(spec), runs, device)
    splits = session.splits(spec)
    if spec.fits_gain and (reason := session.against_gain(spec)):
        raise BadInput(why_not(reason, "The gain cannot be fitted", 2 * FEWEST))
    session.out_of_scope(spec)  # raises if its file cannot be read
    named = getattr(found.options, "texts", "")
    texts = session.other_texts(spec, named) if named else None
    notes = (
        *session.rehearsed(spec)[0].notes,
        *splits.notes,
        *session.overlap(spec),
        *filter(None, (why_not(session.against_fitting(spec)),)),
        *encoding_notes(session.texts(spec)),
        *found.notes,
        *([texts.note] if texts else ()),
    )
    task = task_note(session.task(spec), splits)
    return RunPlan(**{**vars(found), "notes": tuple(dict.fromkeys(notes)), "task": task, "texts": texts})


def checked_spec(
    spec: RunSpec, task: Task, others: Mapping[str, Task], pair: Preflight, runs: Library | None, device: str = ""
) -> CheckedSpec:
    """Return what headers and task files tell of a spec; raises SkillvizError if the run is refused.

    `others` are the spec's other tasks by the names in it. `runs` holds the runs that the spec may name; in a study it
    is None, because these runs, and further models, may still be made. `device` is the kind of device, if known.
    """
    row = localizer(spec.localizer)
    refuse_unfit(task, others)
    refuse_unsuited(spec, task, pair, device)
    region, sources = named_region(spec, row, runs)
    if region is not None and pair.table is not None and dict(region.shapes) != pair.table.shapes:
        raise BadInput(
            f"the region of the option '{row.region_option}' was made for another architecture than this pair; name a "
            "region of the same base."
        )
    resolved, outside, avoided = None, None, tuple[dict[str, Any], ...]()
    if row.name == EXPRESSION and runs is not None and pair.table is not None:
        resolved = resolved_expression(spec.options, pair.table, runs)
        sources = resolved.sources
    options, unused = options_of(spec, row, region, resolved)
    if (error := refused_options(options, task, spec.lean)) is not None:
        raise error
    sizes = tuple[int, ...]() if resolved is None else (resolved.size,)
    if row.name != EXPRESSION and pair.d is not None:
        sizes = tuple(parse_size(size, pair.d) for size in spec.sizes)
    if runs is not None:
        for other in other_models_of(options):
            preflight(expanded(spec.base, "base"), other).raise_first()
        if pair.table is not None:
            outside, avoided = outside_of(spec, row, pair.table, sizes, runs)
    notes = [*unused]
    if outside is not None:
        notes.append(f"The search stays out of {outside.size:,} entries: {spec.outside}.")
    notes += (f"Made with the region of run {one['run']} (sha256 {one['region_sha256'][:12]})." for one in sources)
    if spec.nulls != NO_NULLS and not row.has_null:
        notes.append(f"The localizer {row.name} has no null, so none is searched.")
    if not row.budgeted and not resolved:
        notes.append(f"The localizer {row.name} sets its own size; the size you gave is not used.")
    return CheckedSpec(
        spec=spec, row=row, options=options, sizes=sizes, notes=tuple(notes), base_region=region,
        resolved=resolved, outside=outside, sources=(*sources, *avoided),
    )  # fmt: skip


def other_models_of(options: Any) -> tuple[str, ...]:
    """Return the folders or names, with paths expanded, of further models whose movements a localizer uses."""
    named = getattr(options, "other_models", "")
    return tuple(expanded(name, "other_models") for name in named.split(",") if name)


def key_of_region(spec: RunSpec, row: Localizer) -> str | None:
    """Return the key of the run whose region the localizer's option names, as in a study (`spec.region_of`)."""
    return key_in(spec.options.get(row.region_option or ""))


def options_of(
    spec: RunSpec, row: Localizer, base_region: Region | None = None, resolved: ResolvedExpression | None = None
) -> tuple[Any, tuple[str, ...]]:
    """Return the localizer's options from the spec, and notes on options that do not apply to it.

    `steps` and `batch_size` are shared by many localizers and are omitted for those without them; any other unknown
    option raises BadInput.
    """
    known = {f.name: f for f in fields(row.options)}
    values = dict(spec.options)
    for name in values:
        if name in known and "instead" in known[name].metadata:
            raise BadInput(f"'{name}' cannot be set; {known[name].metadata['instead']}.")
    common = {"steps": spec.steps, "batch_size": spec.batch_size}
    common = {name: value for name, value in common.items() if value is not None}
    values |= {name: value for name, value in common.items() if name in known}
    if spec.lean and "candidate_share" in known:
        values.setdefault("candidate_share", LEAN_CANDIDATES)
    if row.region_option is not None and (base_region is not None or key_of_region(spec, row) is not None):
        values.pop(row.region_option, None)
    if base_region is not None:
        values |= {f"{row.region_option}_indices": tuple(base_region.flat().tolist())}
    if resolved is not None:
        values |= {EXPRESSION: resolved.expression, "stored": resolved.stored}
    unused = [name for name in common if name not in known]
    notes = (
        (f"The localizer {row.name} has no {' and no '.join(unused)}; the value given is not used.",) if unused else ()
    )
    return row.make_options(values), notes


def named_region(
    spec: RunSpec, row: Localizer, runs: Library | None
) -> tuple[Region | None, tuple[dict[str, Any], ...]]:
    """Return the region that the localizer's option names by a run's key or a file, and the identification of that run.

    A folder means the region.safetensors in it. Returns None if the option names no region, or a run's key without
    `runs`. Raises BadInput if there is no such file, RunNotFound if no run with the key is finished.
    """
    option, key = row.option(row.region_option or ""), key_of_region(spec, row)
    named = spec.options.get(option.name) if option else None
    if option is None or named is None or named in option.choices or (key is not None and runs is None):
        return None, ()
    if key is not None and runs is not None:
        try:
            run = runs.newest(key)
        except RunNotFound as error:
            raise RunNotFound(
                f"the option '{option.name}' names the region of a run ({words_of_region(named)}, key {key[:12]}) "
                f"that is not finished here; run its study first, or name a region file: "
                f"{option.name}=RUN/region.safetensors."
            ) from error
        return run.region(), (source_of(run),)
    path = Path(named) if isinstance(named, str) else Path()
    path = path / REGION if (path / REGION).is_file() else path
    if not isinstance(named, str) or not path.is_file():
        allowed = ", ".join(option.choices)
        raise BadInput(f"the option '{option.name}' must be {allowed}, or a region file; {named!r} is none of them.")
    return Region.load(path), ()
