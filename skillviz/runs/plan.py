"""The one door to a run: from its spec to a checked plan. Commands, pages, jobs, studies and Python all call it.

`checked_spec` reads headers alone, `planned` also the data. Neither needs weights or torch, but encoding texts imports
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from skillviz.core.encoded import encoding_notes
from skillviz.core.localizers.table import EXPRESSION, LEAN_CANDIDATES, Localizer, localizer
from skillviz.core.region import Region
from skillviz.core.size import parse_size
from skillviz.errors import BadInput, RunNotFound
from skillviz.models.preflight import Preflight, preflight
from skillviz.runs.held_out import FEWEST, why_not
from skillviz.runs.library import Library
from skillviz.runs.provenance import task_note
from skillviz.runs.record import TaskNote
from skillviz.runs.region_expression import ResolvedExpression, made_with, outside_of, resolved_expression, source_of
from skillviz.runs.run import REGION
from skillviz.runs.session import Session
from skillviz.runs.spec import NO_NULLS, RunSpec, key_in, words_of_region
from skillviz.runs.suited import refuse_unsuited
from skillviz.runs.transfer import refuse_unfit
from skillviz.tasks.project import expanded
from skillviz.tasks.task import Task


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
    """A run as far as it is known before weights are read: also the note on its data, and all notes it will store."""

    task: TaskNote


def planned(spec: RunSpec, session: Session, runs: Library, device: str = "") -> RunPlan:
    """Return the plan of a spec with its data, and all notes that its run will store before weights are read.

    Raises SkillvizError if the run would be refused. See `checked_spec` for `runs` and `device`.
    """
    found = checked_spec(spec, session.task(spec), session.other_tasks(spec), session.preflight(spec), runs, device)
    splits = session.splits(spec)
    if spec.fits_gain and (reason := session.against_gain(spec)):
        raise BadInput(why_not(reason, "The gain cannot be fitted", 2 * FEWEST))
    session.out_of_scope(spec)  # raises if its file cannot be read
    notes = (
        *session.rehearsed(spec)[0].notes,
        *splits.notes,
        *session.overlap(spec),
        *filter(None, (why_not(session.against_fitting(spec)),)),
        *encoding_notes(session.texts(spec)),
        *found.notes,
    )
    task = task_note(session.task(spec), splits)
    return RunPlan(**{**vars(found), "notes": tuple(dict.fromkeys(notes)), "task": task})


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
    notes += made_with(sources)
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
