"""Find the study that a command names, by its file or by the name of a stored one: its store, steps and tables.

Imports pandas and other heavy packages: import this module only when a command is called.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pandas as pd

from skillviz.analysis.necessity import study_areas
from skillviz.commands.output import note, say
from skillviz.errors import BadInput, SkillvizError
from skillviz.runs.artifact import LOCALIZE
from skillviz.runs.plan import planned
from skillviz.runs.session import Session
from skillviz.runs.store import Store, library, store_root
from skillviz.studies.finetuned_model import slug
from skillviz.studies.make_tables import tables_of_runs
from skillviz.studies.plan import study_plan
from skillviz.studies.results import Results
from skillviz.studies.spec import StudySpec, read_study
from skillviz.studies.status import FINISHED, MISSING, Snapshot, status
from skillviz.studies.step import TABLE, StudyStep
from skillviz.studies.store import FILE, FOLDER, open_study, study_folders, study_path
from skillviz.tasks.project import expanded

Wanted = Literal["own", "begun", "tables"]
"""The store to choose: always the user's own; the first in which the study was begun; the first with its tables."""
SUFFIXES = (".yaml", ".yml")
ABSENT = "not here"
"""State of a finished step whose result is not in the store: fine-tuned models are not bundled."""
SCORES, DIFFERENCES = "scores", "differences"


def named(given: str, runs_dir: Path | None, wanted: Wanted) -> tuple[StudySpec, Store]:
    """The study of a file or a name, and the wanted store; the user's own if no other store fits.

    A file takes precedence over a stored study of that name. For a file, another store counts only if its tables come
    from exactly the same study. Raises BadInput if the text is neither a file nor a stored study.
    """
    stores = _stores(runs_dir)
    file = _file(given)
    if file is not None:
        study = read_study(file)
        return study, _first(study, stores, wanted, is_file=True)
    there = [store for store in stores if _study_file(store, given).is_file()]
    if not there:
        raise BadInput(_unknown(given, stores))
    study = read_study(_study_file(there[0], given))
    store = _first(study, stores, wanted)
    file = _study_file(store, given)
    return read_study(file) if file.is_file() else study, store


def with_tables(study: StudySpec, runs_dir: Path | None) -> Store | None:
    """The first store that holds tables of a study of this name, or None."""
    return next((store for store in _stores(runs_dir) if _has(study, store, "tables")), None)


def ships(store: Store, runs_dir: Path | None) -> bool:
    """True if a store is not the user's own."""
    return store.root.resolve() != store_root(runs_dir).resolve()


def known(stores: Sequence[Store]) -> list[str]:
    """The folder names of all stored studies, including studies that were written but not begun."""
    return sorted({path.name for store in stores for path in study_folders(store, FILE)})


def steps(at: Snapshot, is_packed: bool = False) -> pd.DataFrame:
    """One row per step: its state and the seconds it took.

    If the store holds packed studies, or results are absent, existing tables count as finished: their inputs no longer
    exist under the same names.
    """
    frame = status(at.plan.study, at.store)
    states = [_state(at, step, state) for step, state in zip(at.plan.steps, frame["state"], strict=True)]
    if (is_packed or ABSENT in states) and set(states[:-1]) <= {FINISHED, ABSENT} and _has_tables(at):
        states[-1] = FINISHED
    return frame.assign(state=states)


def say_notes(at: Snapshot) -> list[str]:
    """Prints the notes that the missing runs of a plan will store, each once, and returns them.

    A run whose model does not exist yet has no notes. Refusals are skipped here; they are reported when runs are
    checked.
    """
    session, notes = Session(), dict[str, None]()
    for step in at.plan.of(LOCALIZE):
        if not at.is_there(step):
            with suppress(SkillvizError):
                notes |= dict.fromkeys(planned(step.spec, session, library(at.store.root)).notes)
    for line in ("Notes:", *(f"- {one}" for one in notes)) if notes else ():
        say(line)
    return list(notes)


def place(at: Snapshot, runs_dir: Path | None) -> str:
    """Sentences on the study's folder and on the tables in it."""
    folder = at.folder
    if folder is None:
        return f"It was not started in {at.store.root}."
    whence = "It ships with skillviz" if ships(at.store, runs_dir) else "It is"
    tables = f"with the tables {', '.join(folder.tables())}" if folder.tables() else "without tables yet"
    sentence = f"{whence} in {folder.path}, {tables}."
    other = None if folder.tables() else with_tables(at.plan.study, runs_dir)
    if other is not None and other.root != at.store.root:
        sentence += f" One of this name that has tables ships in {study_path(other.root, at.plan.study)}."
    return sentence


def area_table(study: StudySpec, store: Store) -> pd.DataFrame:
    """The areas under both curves by size for each search, from the study's scores; raises BadInput without a size."""
    found = study_areas(study_table(study, store, None, False))
    if found.empty:
        raise BadInput(f"the study '{study.name}' scores no region, so there is no area under a curve by size.")
    return found


def study_table(study: StudySpec, store: Store, name: str | None, is_paired: bool) -> pd.DataFrame:
    """The stored table of this name; without a name, the scores, or the main table if there are none.

    For a user's own study without tables, the scores of the finished runs, pair by pair, or the paired differences of
    each two localizers. Raises BadInput if there is no table.
    """
    folder = open_study(study_path(store.root, study))
    is_whole = folder is not None and bool(folder.tables()) and folder.record.key == study_plan(study).key
    if name is None and study.experiment is None and (is_paired or not is_whole):
        if not is_whole:
            note("Not all steps are finished: a table of the runs that are, each model by itself.")
        return tables_of_runs(Results(study_plan(study), store))[DIFFERENCES if is_paired else SCORES]
    if folder is None or not folder.tables():
        raise BadInput(f"the study '{study.name}' has no tables in {store.root} yet; make them with `study run`.")
    if folder.record.key != study_plan(study).key:
        note(f"The tables of '{study.name}' are of the file as it was before; `study run` rebuilds them.")
    if is_paired or name:
        return folder.table(name or DIFFERENCES)
    return folder.table(SCORES if SCORES in folder.tables() else folder.tables()[0])  # the main table is made first


def _stores(runs_dir: Path | None) -> list[Store]:
    """The user's own store, with its path as given, then the bundled ones."""
    return [Store(store_root(runs_dir)), *(store for store in library(runs_dir).stores if ships(store, runs_dir))]


def _file(given: str) -> Path | None:
    """The study file that the text names, also by its folder; None if there is no such file."""
    path = Path(expanded(given))
    file = path / FILE if path.is_dir() else path
    return file if file.is_file() else None


def _study_file(store: Store, name: str) -> Path:
    """The path of the file of a study of this name in a store, whether or not it exists."""
    return store.root / FOLDER / (slug(name) or "-") / FILE


def _first(study: StudySpec, stores: Sequence[Store], wanted: Wanted, is_file: bool = False) -> Store:
    """The first store that has what is wanted; otherwise the user's own, which is the first of `stores`."""
    users, *others = stores
    if wanted == "own" or _has(study, users, wanted):
        return users
    key = study_plan(study).key if is_file else None
    return next((store for store in others if _has(study, store, "tables", key)), users)


def _has(study: StudySpec, store: Store, wanted: Wanted, key: str | None = None) -> bool:
    """True if a store has a study of this name, begun or with tables; with `key`, only the study with this key."""
    folder = open_study(study_path(store.root, study))
    if folder is None or (wanted == "tables" and not folder.tables()):
        return False
    return key is None or folder.record.key == key


def _unknown(given: str, stores: Sequence[Store]) -> str:
    """The message for a text that is neither a file nor a name."""
    names = ", ".join(known(stores)) or "none"
    if given.lower().endswith(SUFFIXES) or "/" in given:
        return f"there is no study file {given}; name an existing YAML file, or a stored study: {names}."
    return (
        f"'{given}' is neither a stored study nor a study file; stored: {names}. You can also give your own YAML file."
    )


def _state(at: Snapshot, step: StudyStep, state: str) -> str:
    """The state; ABSENT for a missing result of a step that the study's own record lists as finished."""
    if state != MISSING or step.kind == TABLE or at.folder is None or at.folder.record.key != at.plan.key:
        return state
    noted = at.folder.record.steps.get(step.key)
    return ABSENT if noted is not None and noted.state == FINISHED else state


def _has_tables(at: Snapshot) -> bool:
    """True if all stored tables exist and come from exactly this study."""
    folder = at.folder
    if folder is None or not folder.tables() or folder.record.key != at.plan.key:
        return False
    return all(os.path.isfile(folder.path / name) for name in folder.record.files)
