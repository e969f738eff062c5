"""Whether what is finished still stands: models, data and regions are those that it was made with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.errors import BadInput, BadModel, RunNotFound, StoreError
from skillviz.runs.library import library
from skillviz.runs.run import REGION, Run
from skillviz.runs.store import Store
from skillviz.studies.regions import keys_in
from skillviz.studies.score import Score

if TYPE_CHECKING:
    from skillviz.runs.session import Session


def is_current(run: Run, session: Session, store: Store | None = None) -> bool:
    """Whether the models and data of a finished run are still what it was made of, and with a `store` the regions too.

    A spec names folders, and their content may have changed. Where models or data are gone the run stands.
    """
    record = run.record
    try:
        check, data = session.preflight(record.spec), session.splits(record.spec).fingerprint
        others = tuple(other.fingerprint for other in session.others(record.spec))
    except (BadModel, BadInput):
        return True
    members = {(record.base, check.base.fingerprint), (record.finetuned, check.finetuned.fingerprint)}
    same = all(note is not None and note.fingerprint == own for note, own in members)
    same = same and others == tuple(transfer.fingerprint for transfer in record.transfers)
    same = same and record.task is not None and record.task.fingerprint == data
    return same and (store is None or _has_same_regions(run, store))


def is_score_current(score: Score, session: Session) -> bool:
    """The same of finished scores."""
    record, spec = score.record, score.spec.run_spec()
    try:
        check, data = session.preflight(spec), session.splits(spec).fingerprint
        others = tuple(other.fingerprint for other in session.others(spec))
    except (BadModel, BadInput):
        return True
    same = record.base.fingerprint == check.base.fingerprint and record.task.fingerprint == data
    same = same and record.finetuned.fingerprint == check.finetuned.fingerprint
    return same and others == ((record.transfer.fingerprint,) if record.transfer else ())


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
