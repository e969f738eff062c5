"""A study: several runs that belong together, read from YAML, made one after the other, told as tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillviz.errors import BadInput, BadModel, DiskFull, SkillvizError
from skillviz.runs import aggregate
from skillviz.runs.failure import failure_of
from skillviz.runs.progress import Report
from skillviz.runs.record import Failure
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec, read_spec
from skillviz.runs.store import Store

if TYPE_CHECKING:
    from skillviz.runs.session import Session

EXPANDED = ("localizer", "size", "seed")


class StudySpec(BaseModel):
    """A study file.

    `defaults` are fields of every run; `runs` a list of what each changes. Lists in `localizer`, `size`
    and `seed` stand for one run each, in every combination; `sizes` is one run of several sizes. A file
    that is a plain list of runs is a study of its own name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    defaults: dict[str, Any] = Field(default_factory=dict)
    runs: tuple[dict[str, Any], ...] = Field(min_length=1)

    def specs(self) -> list[RunSpec]:
        """The runs in order, each once; raises BadInput with the number of the entry that is wrong."""
        found: dict[str, RunSpec] = {}
        for number, entry in enumerate(self.runs, start=1):
            for values in _expanded({**self.defaults, **entry}):
                try:
                    spec = read_spec(values)
                except BadInput as error:
                    raise BadInput(f"study '{self.name}', entry {number} of runs: {error.args[0]}") from error
                found.setdefault(spec.key(), spec)
        return list(found.values())


@dataclass
class Outcome:
    """What came of a study: the runs by what was done, and the specs that failed with their reason."""

    finished: list[Run] = field(default_factory=list)
    skipped: list[Run] = field(default_factory=list)
    failed: list[tuple[RunSpec, Failure]] = field(default_factory=list)


# number (from 1), how many, the spec, and "skipped", "started", "finished" or "failed"
OnRun = Callable[[int, int, RunSpec, str], None]


def read_study(path: Path | str) -> StudySpec:
    """The study of a YAML file (safe loader); raises BadInput where it cannot be read or a field is wrong."""
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadInput(f"the study file {path} cannot be read: {' '.join(str(error).split())}.") from error
    if isinstance(content, list):
        content = {"name": Path(path).stem, "runs": content}
    if not isinstance(content, dict):
        raise BadInput(f"the study file {path} must be a list of runs, or have the fields name, defaults and runs.")
    try:
        return StudySpec(**content)
    except (ValidationError, TypeError) as error:
        raise BadInput(f"the study file {path} must have a name and a list of runs: {_first(error)}.") from error


def run(
    study: StudySpec,
    store: Store,
    progress: Report | None = None,
    on_run: OnRun | None = None,
    session: Session | None = None,
) -> Outcome:
    """Makes the runs that `store` does not hold finished; started again, it goes on where it stopped.

    A run that fails is reported and the others go on; a full disk and Ctrl-C end the study. A finished
    run counts only while its models and data are still those on disk.
    """
    from skillviz.runs.produce import produce  # needs torch, which reading a study does not
    from skillviz.runs.session import Session

    session, outcome, specs = session or Session(), Outcome(), study.specs()
    done = finished(specs, store)
    tell = on_run or (lambda *_: None)
    for number, spec in enumerate(specs, start=1):
        found = done.get(spec.key())
        if found is not None and is_current(found, session):
            outcome.skipped.append(found)
            tell(number, len(specs), spec, "skipped")
            continue
        tell(number, len(specs), spec, "started")
        try:
            outcome.finished.append(produce(spec, store, progress, session))
            tell(number, len(specs), spec, "finished")
        except DiskFull:
            raise
        except SkillvizError as error:
            outcome.failed.append((spec, failure_of(error)))
            tell(number, len(specs), spec, "failed")
    return outcome


def finished(specs: Iterable[RunSpec], store: Store) -> dict[str, Run]:
    """Key of each spec that has a finished run to the newest such run."""
    keys = {spec.key() for spec in specs}
    return {run.record.key: run for run in reversed(store.list()) if run.record.key in keys}


def is_current(run: Run, session: Session) -> bool:
    """Whether the models and data of a finished run are still what it was made of.

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
    return same and record.task is not None and record.task.fingerprint == data


def table(study: StudySpec, store: Store) -> pd.DataFrame:
    """Mean, sd and interval over seeds of every metric by localizer and size; see `aggregate.table`."""
    return aggregate.table(list(finished(study.specs(), store).values()))


def differences(study: StudySpec, store: Store) -> pd.DataFrame:
    """Each localizer against each other at equal size, with paired intervals; see `aggregate.differences`."""
    return aggregate.differences(list(finished(study.specs(), store).values()))


def _expanded(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the lists in `localizer`, `size` and `seed`; `size` becomes `sizes` of one."""
    lists = {n: values[n] if isinstance(values[n], list) else [values[n]] for n in EXPANDED if n in values}
    if "size" in lists and "sizes" in values:
        raise BadInput("give `size` (one run each) or `sizes` (one run of several), not both.")
    for combination in itertools.product(*lists.values()):
        chosen = {**values, **dict(zip(lists, combination, strict=True))}
        if "size" in chosen:
            chosen["sizes"] = [chosen.pop("size")]
        yield chosen


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return f"'{'.'.join(str(part) for part in first['loc'])}': {first['msg']}"
