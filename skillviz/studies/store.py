"""The folder of a study in a store: its file, its record and its tables, all written atomically."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
from pydantic import Field

from skillviz.analysis.tables import check
from skillviz.atomic import sha256, write_file, write_text
from skillviz.errors import BadInput, NotReadable, StoreError
from skillviz.layout import LAYOUT
from skillviz.regular_file import folder_names, may_be_regular, regular
from skillviz.runs.packed import STUDIES
from skillviz.runs.record import Failure, FileNote, Frozen, read_as
from skillviz.runs.store import Library, Store, Unreadable
from skillviz.studies.spec import StudySpec, read_study

FOLDER = STUDIES
FILE, RECORD = "study.yaml", "study.json"
TABLES_VERSION = 4
"""Increase this when the tables' content for the same results changes: studies then make their tables again."""


class StepNote(Frozen):
    """A step in study.json: its state (missing, running, finished, failed or not reached) and its seconds."""

    kind: str
    title: str
    state: str
    seconds: float | None = None
    error: Failure | None = None


class StudyRecord(Frozen):
    """The content of study.json.

    `status` is running, finished, failed (steps failed) or cancelled; `seconds` is the total of all attempts. `made_of`
    identifies the results from which the tables were made.
    """

    layout: int = LAYOUT
    name: str
    title: str = ""
    status: str = "running"
    experiment: str | None = None
    scale: str | None = None
    command: str | None = None
    key: str = ""
    started: str = ""
    finished: str | None = None
    seconds: float = 0.0
    workers: int = 1
    versions: dict[str, str] = Field(default_factory=dict)
    commit: str | None = None
    device: str | None = None
    steps: dict[str, StepNote] = Field(default_factory=dict)
    made_of: str = ""
    files: dict[str, FileNote] = Field(default_factory=dict)


@dataclass(frozen=True)
class StudyFolder:
    """A study of a store; read without torch."""

    path: Path
    record: StudyRecord

    @property
    def name(self) -> str:
        """The study's name."""
        return self.record.name

    @property
    def study(self) -> StudySpec:
        """The study as requested."""
        return read_study(self.path / FILE)

    def tables(self) -> list[str]:
        """Return the names of its tables."""
        return [Path(name).stem for name in self.record.files if name.endswith(".parquet")]

    def table(self, name: str) -> pd.DataFrame:
        """Return one of its tables; raises BadInput if it has no such table, StoreError if it cannot be read."""
        if name not in self.tables():
            known = ", ".join(self.tables()) or "none yet"
            raise BadInput(f"the study '{self.name}' has no table '{name}'; it has: {known}.")
        file = f"{name}.parquet"
        try:
            return check(pd.read_parquet(regular(self.path / file)), name)
        except (OSError, ValueError, KeyError) as error:
            raise StoreError(f"{file} of the study '{self.name}' cannot be read ({error}).") from error


def study_path(root: Path, study: StudySpec) -> Path:
    """Return the study's folder under a store's root, which may not exist yet."""
    return root / FOLDER / study.folder


def open_study(path: Path) -> StudyFolder | None:
    """Return the study in a folder; None if there is none that can be read."""
    with suppress(StoreError):
        return StudyFolder(path, read_as(StudyRecord, path / RECORD))
    return None


def studies_in(store: Store) -> Sequence[StudyFolder]:
    """Return the readable studies of one store, by folder."""
    found = map(open_study, study_folders(store))
    return [study for study in found if study is not None]


def study_folders(store: Store, file: str = RECORD) -> Sequence[Path]:
    """Return the folders of a store's studies that have this file, by name; none if they cannot be listed."""
    root = store.root / FOLDER
    with suppress(NotReadable):
        return [root / name for name in folder_names(root) if may_be_regular(root / name / file)]
    return []


def unreadable_studies(store: Store) -> Sequence[Unreadable]:
    """Return folders with an unreadable study.json, or the folder of studies if it cannot be listed."""
    broken = []
    try:
        folder_names(store.root / FOLDER)
        for path in study_folders(store):
            try:
                read_as(StudyRecord, path / RECORD)
            except StoreError as error:
                broken.append(Unreadable(path, error))
    except NotReadable as error:
        return [Unreadable(store.root / FOLDER, error)]
    return broken


def list_studies(
    library: Library | Store, read: Callable[[Store], Sequence[StudyFolder]] = studies_in
) -> Sequence[StudyFolder]:
    """Return the studies of all stores of a library, by name; the first of two of one name, which is the user's own.

    A study without tables, restarted or interrupted, is replaced by one of its name that has tables. `read` returns the
    studies of one store.
    """
    stores = library.stores if isinstance(library, Library) else [library]
    studies: dict[str, StudyFolder] = {}
    for study in (study for store in stores for study in read(store)):
        before = studies.get(study.path.name)
        if before is None or (study.tables() and not before.tables()):
            studies[study.path.name] = study
    return [studies[name] for name in sorted(studies)]


def write_record(path: Path, record: StudyRecord) -> None:
    """Write study.json atomically."""
    write_text(path / RECORD, json.dumps(record.model_dump(mode="json"), indent=1, allow_nan=False) + "\n")


def write_tables(path: Path, tables: dict[str, pd.DataFrame]) -> dict[str, FileNote]:
    """Store the tables as Parquet, and return their notes for study.json."""
    notes = {}
    for name, frame in tables.items():
        target = path / f"{name}.parquet"
        write_file(target, partial(frame.to_parquet, index=False))
        notes[target.name] = FileNote(sha256=sha256(target), size=target.stat().st_size)
    return notes
