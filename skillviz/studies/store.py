"""The folder of a study in a store: its file, its record and its tables, written whole or not at all."""

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
from skillviz.runs.library import Library
from skillviz.runs.packed import STUDIES
from skillviz.runs.record import Failure, FileNote, Frozen, read_as
from skillviz.runs.store import Store, Unreadable
from skillviz.studies.spec import StudySpec, read_study

FOLDER = STUDIES
FILE, RECORD = "study.yaml", "study.json"
TABLES_VERSION = 4
"""To be raised with every change of what the tables say of the same results: studies then make theirs anew."""


class StepNote(Frozen):
    """What study.json says of a step: its state (finished, failed or not reached) and the seconds taken."""

    kind: str
    title: str
    state: str
    seconds: float | None = None
    error: Failure | None = None


class StudyRecord(Frozen):
    """study.json. `status` is running, finished, failed (steps failed) or cancelled; `seconds` those of all attempts.
    `made_of` tells which results the tables were made from."""

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
    """One study of a store; read without torch."""

    path: Path
    record: StudyRecord

    @property
    def name(self) -> str:
        """The study's name."""
        return self.record.name

    @property
    def study(self) -> StudySpec:
        """The study as it was asked for."""
        return read_study(self.path / FILE)

    def tables(self) -> list[str]:
        """The names of its tables."""
        return [Path(name).stem for name in self.record.files if name.endswith(".parquet")]

    def table(self, name: str) -> pd.DataFrame:
        """One of its tables; raises BadInput where it has none of that name, StoreError where it cannot be read."""
        if name not in self.tables():
            known = ", ".join(self.tables()) or "none yet"
            raise BadInput(f"the study '{self.name}' has no table '{name}'; it has: {known}.")
        file = f"{name}.parquet"
        try:
            return check(pd.read_parquet(regular(self.path / file)), name)
        except (OSError, ValueError, KeyError) as error:
            raise StoreError(f"{file} of the study '{self.name}' cannot be read ({error}).") from error


def study_path(root: Path, study: StudySpec) -> Path:
    """The folder that a study has, or will have, under a store's root."""
    return root / FOLDER / study.folder


def open_study(path: Path) -> StudyFolder | None:
    """The study in a folder; None where there is none that can be read."""
    with suppress(StoreError):
        return StudyFolder(path, read_as(StudyRecord, path / RECORD))
    return None


def studies_in(store: Store) -> Sequence[StudyFolder]:
    """The studies of one store that can be read, by folder."""
    found = map(open_study, study_folders(store))
    return [study for study in found if study is not None]


def study_folders(store: Store, file: str = RECORD) -> Sequence[Path]:
    """The folders of a store's studies that have this file, by name; none where they cannot be listed."""
    root = store.root / FOLDER
    with suppress(NotReadable):
        return [root / name for name in folder_names(root) if may_be_regular(root / name / file)]
    return []


def unreadable_studies(store: Store) -> Sequence[Unreadable]:
    """Folders with a study.json that cannot be shown, and the folder of studies where it cannot be listed."""
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
    """The studies of all stores of a library, by name; of two of one name the user's own, which is the first.

    One without tables, begun anew or cut off, gives way to one of its name that has them. `read` gives those of one
    store.
    """
    stores = library.stores if isinstance(library, Library) else [library]
    studies: dict[str, StudyFolder] = {}
    for study in (study for store in stores for study in read(store)):
        before = studies.get(study.path.name)
        if before is None or (study.tables() and not before.tables()):
            studies[study.path.name] = study
    return [studies[name] for name in sorted(studies)]


def write_record(path: Path, record: StudyRecord) -> None:
    """Puts study.json in place at once."""
    write_text(path / RECORD, json.dumps(record.model_dump(mode="json"), indent=1, allow_nan=False) + "\n")


def write_tables(path: Path, tables: dict[str, pd.DataFrame]) -> dict[str, FileNote]:
    """Stores the tables as Parquet; what study.json vouches for."""
    notes = {}
    for name, frame in tables.items():
        target = path / f"{name}.parquet"
        write_file(target, partial(frame.to_parquet, index=False))
        notes[target.name] = FileNote(sha256=sha256(target), size=target.stat().st_size)
    return notes
