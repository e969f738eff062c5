"""What `study status` and `study table` tell of a study: every step as it is, where it lies, and its tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from skillviz.commands.find_study import ships, with_tables
from skillviz.commands.output import note
from skillviz.errors import BadInput
from skillviz.runs.store import Store
from skillviz.studies.estimate import estimates
from skillviz.studies.plan import plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.status import FINISHED, MISSING, Snapshot, status
from skillviz.studies.step import TABLE, Step
from skillviz.studies.store import StudyFolder, open_study, study_path

ABSENT = "not here"
"""State of a step that was finished and whose result is not in the store: fine-tuned models do not ship."""
SCORES, DIFFERENCES = "scores", "differences"


def steps(at: Snapshot, is_packed: bool = False) -> pd.DataFrame:
    """One row a step: its state, the seconds it took, and those it is thought to take.

    The tables of a store that studies are packed into, and of one with absent results, stand as they are: what they
    were made from is no longer there under the same names.
    """
    told = estimates(at)
    frame = status(at.plan.study, at.store)
    states = [_state(at, step, state) for step, state in zip(at.plan.steps, frame["state"], strict=True)]
    if (is_packed or ABSENT in states) and set(states[:-1]) <= {FINISHED, ABSENT} and _has_tables(at):
        states[-1] = FINISHED
    return frame.assign(state=states, estimated=[round(told.steps[step.key], 1) for step in at.plan.steps])


def place(at: Snapshot, runs_dir: Path | None) -> str:
    """Sentences on where the study is and which tables it has there."""
    folder = at.folder
    if folder is None:
        return f"It was not begun in {at.store.root}."
    whence = "It ships with skillviz" if ships(at.store, runs_dir) else "It is"
    tables = f"with the tables {', '.join(folder.tables())}" if folder.tables() else "without tables yet"
    said = f"{whence} in {folder.path}, {tables}."
    other = None if folder.tables() else with_tables(at.plan.study, runs_dir)
    if other is not None and other.root != at.store.root:
        said += f" One of this name that has tables ships in {study_path(other.root, at.plan.study)}."
    return said


def table(study: StudySpec, store: Store, name: str | None, is_paired: bool) -> pd.DataFrame:
    """The table of this name as stored; without a name its scores, or its main table where it has none.

    Of a study of one's own without tables as yet, those of the runs that are finished by now, pair by pair; so are its
    paired differences of each two localizers. Raises BadInput where there is none.
    """
    from skillviz.studies.generic import generic
    from skillviz.studies.results import Results

    folder = open_study(study_path(store.root, study))
    is_whole = folder is not None and _is_whole(folder, study)
    if name is None and study.experiment is None and (is_paired or not is_whole):
        if not is_whole:
            note("Not all steps are finished: a table of the runs that are, each model by itself.")
        return generic(Results(plan(study), store))[DIFFERENCES if is_paired else SCORES]
    if folder is None or not folder.tables():
        raise BadInput(f"the study '{study.name}' has no tables in {store.root} yet; make them with `study run`.")
    if folder.record.key != plan(study).key:
        note(f"The tables of '{study.name}' are of the file as it was before; `study run` makes them anew.")
    return folder.table(name or (DIFFERENCES if is_paired else _main(folder)))


def _is_whole(folder: StudyFolder, study: StudySpec) -> bool:
    return bool(folder.tables()) and folder.record.key == plan(study).key


def _main(folder: StudyFolder) -> str:
    return SCORES if SCORES in folder.tables() else folder.tables()[0]  # an experiment makes its main table first


def _state(at: Snapshot, step: Step, state: str) -> str:
    """The state, ABSENT for what the study's own record says was finished."""
    if state != MISSING or step.kind == TABLE or at.folder is None or at.folder.record.key != at.plan.key:
        return state
    told = at.folder.record.steps.get(step.key)
    return ABSENT if told is not None and told.state == FINISHED else state


def _has_tables(at: Snapshot) -> bool:
    """Whether all stored tables are there, and of this very study."""
    folder = at.folder
    if folder is None or not folder.tables() or folder.record.key != at.plan.key:
        return False
    return all((folder.path / name).is_file() for name in folder.record.files)
