"""Whether what is finished still stands: models, data, task and regions are those that it was made with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skillviz.errors import BadInput, BadModel, RunNotFound, StoreError
from skillviz.runs.library import library
from skillviz.runs.record import ModelNote, TaskNote, TransferNote
from skillviz.runs.run import REGION, Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.studies.regions import keys_in
from skillviz.studies.score import Score
from skillviz.tasks.definition import definition, same_definition

if TYPE_CHECKING:
    from skillviz.runs.session import Session

DEFINITION = "the definition of the task '{}' (template, label words, metric or lengths) has changed"
DATA = "the data of the task '{}' have changed"
REGIONS = "the regions that it is made of have changed"


def outdated(run: Run, session: Session, store: Store | None = None) -> str:
    """What has changed since a finished run was made, in words; empty where it stands. With a `store` its regions too.

    A spec names folders and files, whose content may have changed. Where models or data are gone the run stands.
    """
    record = run.record
    why = _changed(record.spec, record.base, record.finetuned, record.task, record.transfers, session)
    return why or (REGIONS if store is not None and not _has_same_regions(run, store) else "")


def outdated_score(score: Score, session: Session) -> str:
    """The same of finished scores."""
    record = score.record
    others = (record.transfer,) if record.transfer else ()
    return _changed(score.spec.run_spec(), record.base, record.finetuned, record.task, others, session)


def _changed(
    spec: RunSpec,
    base: ModelNote | None,
    finetuned: ModelNote | None,
    task: TaskNote | None,
    others: Sequence[TransferNote],
    session: Session,
) -> str:
    """The first of what was noted that is another now; empty where all is the same, or cannot be looked at."""
    try:
        check, data, tasks_now = session.preflight(spec), session.splits(spec).fingerprint, session.others(spec)
    except (BadModel, BadInput):
        return ""
    for word, note, now in (("base", base, check.base), ("fine-tuned", finetuned, check.finetuned)):
        if note is None or note.fingerprint != now.fingerprint:
            return f"the {word} model has changed"
    if task is None or task.fingerprint != data:
        return DATA.format(session.task(spec).name)
    if not same_definition(task.definition, definition(session.task(spec), check.readout)):
        return DEFINITION.format(task.name)
    if len(others) != len(tasks_now):
        return "the tasks that it is scored on have changed"
    for noted, other in zip(others, tasks_now, strict=True):
        if noted.fingerprint != other.fingerprint:
            return DATA.format(noted.name)
        if not same_definition(noted.definition, definition(other.task, check.readout)):
            return DEFINITION.format(noted.name)
    return ""


def _has_same_regions(run: Run, store: Store) -> bool:
    """Whether the runs that a region by hand names by key still have the regions that it was made of."""
    keys = keys_in(run.spec.options.get("recipe"))
    if not keys:
        return True
    found = library(store.root)
    try:
        made_of = {source.get("region_sha256") for source in run.region_header().get("made_of", ())}
        now = {found.newest(key).record.files[REGION].sha256 for key in keys}
    except (RunNotFound, StoreError, BadInput, BadModel, KeyError):
        return True
    return now <= made_of
