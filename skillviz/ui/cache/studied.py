"""Reads of stored studies, by folder and time of completion; the list is read anew when a study.json has changed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pandas as pd
import streamlit as st

from skillviz.errors import BadInput
from skillviz.runs.library import Library, library
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.studies import subject as subjects
from skillviz.studies.paper import request
from skillviz.studies.paper.setting import SettingRow
from skillviz.studies.preview import Outlook, outlook
from skillviz.studies.spec import StudySpec
from skillviz.studies.store import FILE, FOLDER, RECORD, StudyFolder, list_studies
from skillviz.studies.subject import Subject, subject

TABLES = 64  # of studies, kept in memory
SCAN_SECONDS = 5
OUTLOOK_SECONDS = 60  # fine-tuned models are made without a run or study.json


def studies() -> Sequence[StudyFolder]:
    """The stored studies by name, of two of one name the user's own once it has tables."""
    return _studies(_stamp(library()))


def study_table(study: StudyFolder, name: str) -> pd.DataFrame:
    """One of a study's tables, an empty frame where it has none of this name."""
    if name not in study.tables():
        return pd.DataFrame()
    return _table(name, str(study.path), study.record.finished, study)


def study_runs(study: StudyFolder) -> Sequence[Run]:
    """The finished runs that the study's file asks for, from all stores, in the order of the file."""
    return _runs(str(study.path), study.record.finished, len(library().list()), study)


def study_subject(study: StudyFolder) -> Subject | None:
    """What the study is about, by its file; None where that cannot be read."""
    return _subject(*_file(study), study)


def is_demo_world(study: StudyFolder) -> bool:
    """Whether it is of the demo world, by its file; False where that cannot be read or planned."""
    return _is_demo_world(*_file(study), study)


def setting_differences(study: StudyFolder) -> tuple[SettingRow, ...]:
    """Where its setting differs from the paper's, by its file; nothing where that cannot be read or planned."""
    return _differences(*_file(study), study)


def study_outlook(study: StudySpec, store: Store, workers: int) -> Outlook:
    """What a study would do and how long it would take, by what is stored now; raises a SkillvizError."""
    return _outlook(study.yaml_text(), workers, _stamp(library()), len(library().list()), study, store)


def _stamp(found: Library) -> tuple[tuple[str, int], ...]:
    """The studies' files with times of change: equal stamps, equal lists."""
    stamp: list[tuple[str, int]] = []
    for store in found.stores:
        stamp.append((str(store.root), 0))
        for path in sorted((store.root / FOLDER).glob(f"*/{RECORD}")):
            with suppress(OSError):
                stamp.append((str(path), path.stat().st_mtime_ns))
    return tuple(stamp)


def _file(study: StudyFolder) -> tuple[str, int]:
    """The study's file and its time of change, 0 where it is gone."""
    file = study.path / FILE
    return str(file), file.stat().st_mtime_ns if file.is_file() else 0


@st.cache_resource(show_spinner=False, max_entries=4, ttl=SCAN_SECONDS)
def _studies(stamp: tuple[tuple[str, int], ...]) -> Sequence[StudyFolder]:
    return list_studies(library())


@st.cache_data(show_spinner=False, max_entries=TABLES)
def _table(name: str, path: str, finished: str | None, _study: StudyFolder) -> pd.DataFrame:
    return _study.table(name)


@st.cache_resource(show_spinner=False, max_entries=16)
def _runs(path: str, finished: str | None, count: int, _study: StudyFolder) -> Sequence[Run]:
    from skillviz.studies.plan import plan

    by_key = {run.record.key: run for run in reversed(library().list())}
    return [by_key[spec.key()] for spec in plan(_study.study).runs if spec.key() in by_key]


@st.cache_resource(show_spinner=False, max_entries=TABLES)
def _subject(file: str, changed: int, _study: StudyFolder) -> Subject | None:
    try:
        return subject(_study.study)
    except BadInput:
        return None


@st.cache_resource(show_spinner=False, max_entries=TABLES)
def _is_demo_world(file: str, changed: int, _study: StudyFolder) -> bool:
    try:
        return subjects.is_demo_world(_study.study)
    except BadInput:
        return False


@st.cache_resource(show_spinner=False, max_entries=TABLES)
def _differences(file: str, changed: int, _study: StudyFolder) -> tuple[SettingRow, ...]:
    try:
        return request.setting_differences(_study.study)
    except BadInput:
        return ()


@st.cache_data(show_spinner=False, max_entries=16, ttl=OUTLOOK_SECONDS)
def _outlook(
    study_text: str, workers: int, stamp: tuple[tuple[str, int], ...], runs: int, _study: StudySpec, _store: Store
) -> Outlook:
    return outlook(_study, _store, workers)
