"""The plan of a run: its spec applied to this pair and these data, with notes. Needs no weights and no torch.

Only encoding the texts imports torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skillviz.core.encoded import encoding_notes
from skillviz.core.localizers.table import EXPRESSION, Localizer, localizer
from skillviz.core.region import Region
from skillviz.core.size import parse_size
from skillviz.errors import BadInput
from skillviz.models.preflight import preflight
from skillviz.runs.held_out import FEWEST, why_not
from skillviz.runs.library import Library, library
from skillviz.runs.options import named_region, options_of, other_models_of
from skillviz.runs.provenance import task_note
from skillviz.runs.record import TaskNote
from skillviz.runs.region_expression import ResolvedExpression, made_with, outside_of, resolved_expression
from skillviz.runs.session import Session
from skillviz.runs.spec import FIT, NO_NULLS, RunSpec
from skillviz.tasks.project import expanded


@dataclass(frozen=True)
class Plan:
    """The known facts of a run before its folder exists, with `notes` on the pair, the data and the options."""

    spec: RunSpec
    row: Localizer
    options: Any
    sizes: tuple[int, ...]
    base_region: Region | None
    task: TaskNote
    notes: tuple[str, ...]
    resolved: ResolvedExpression | None = None
    sources: tuple[dict[str, Any], ...] = ()
    outside: Region | None = None

    @property
    def size(self) -> int | None:
        """The entries of the main region; None if the localizer decides."""
        return self.sizes[0] if self.row.budgeted or self.resolved else None


def notes_before_start(spec: RunSpec, session: Session) -> tuple[str, ...]:
    """Return the notes that the run of this spec will store, as far as they are known before weights are read.

    Preflight, --dry-run, the Launch page and the run itself all use this list. Raises SkillvizError if the run would be
    refused. Texts are encoded by a tokenizer that imports torch.
    """
    return planned(spec, session, library()).notes


def planned(spec: RunSpec, session: Session, runs: Library) -> Plan:
    """Return the plan of a spec, whose region expression may name the runs of a library; raises SkillvizError."""
    row = localizer(spec.localizer)
    base_region, sources = named_region(spec, row, runs)
    options, notes = options_of(spec, row, base_region)
    session.refuse_unfit(spec)
    check = session.preflight(spec)
    if base_region is not None and check.table is not None and dict(base_region.shapes) != check.table.shapes:
        raise BadInput(
            f"the region of the option '{row.region_option}' was made for another architecture than this pair; name a "
            "region of the same base."
        )
    for other in other_models_of(options):
        preflight(expanded(spec.base, "base"), other).raise_first()
    resolved = None
    if row.name == EXPRESSION and check.table is not None:
        resolved = resolved_expression(spec.options, check.table, runs)
        options, notes = options_of(spec, row, resolved=resolved)
        sources = resolved.sources
    sizes = (resolved.size,) if resolved else tuple(parse_size(size, check.d or 0) for size in spec.sizes)
    outside, avoided = None, tuple[dict[str, Any], ...]()
    if check.table is not None:
        outside, avoided = outside_of(spec, row, check.table, sizes, runs)
    if outside is not None:
        notes += (f"The search stays out of {outside.size:,} entries: {spec.outside}.",)
    notes += made_with(sources)
    if spec.nulls != NO_NULLS and not row.has_null:
        notes += (f"The localizer {row.name} has no null, so none is searched.",)
    if not row.budgeted and not resolved:
        notes += (f"The localizer {row.name} sets its own size; the size you gave is not used.",)
    splits = session.splits(spec)
    if spec.gain == FIT and (reason := session.against_gain(spec)):
        raise BadInput(why_not(reason, "The gain cannot be fitted", 2 * FEWEST))
    session.out_of_scope(spec)  # raises before the start if its file cannot be read
    notes = (
        *session.rehearsed(spec)[0].notes,
        *splits.notes,
        *session.overlap(spec),
        *filter(None, (why_not(session.against_fitting(spec)),)),
        *encoding_notes(session.texts(spec)),
        *notes,
    )
    task = task_note(session.task(spec), splits)
    said, sources = tuple(dict.fromkeys(notes)), (*sources, *avoided)
    return Plan(spec, row, options, sizes, base_region, task, said, resolved, sources, outside)
