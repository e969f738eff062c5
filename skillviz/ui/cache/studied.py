"""Reads of stored studies, by folder and time of completion; the list is read anew when a study.json has changed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from skillviz.runs.library import Library, library

if TYPE_CHECKING:
    from skillviz.studies.store import StudyFolder

TABLES = 64  # of studies, kept in memory
SCAN_SECONDS = 5
FILES = "studies/*/study.json"


def studies() -> Sequence[StudyFolder]:
    """The stored studies, the user's first, each store's newest first; of two of one name the user's."""
    return _studies(_stamp(library()))


def study_table(study: StudyFolder, name: str) -> pd.DataFrame:
    """One of a study's tables, an empty frame where it has none of this name."""
    return _table(name, str(study.path), study.record.finished, study)


def _stamp(found: Library) -> tuple[tuple[str, int], ...]:
    """The studies' files with times of change: equal stamps, equal lists."""
    stamp: list[tuple[str, int]] = []
    for store in found.stores:
        stamp.append((str(store.root), 0))
        for path in sorted(store.root.glob(FILES)):
            with suppress(OSError):
                stamp.append((str(path), path.stat().st_mtime_ns))
    return tuple(stamp)


@st.cache_resource(show_spinner=False, max_entries=4, ttl=SCAN_SECONDS)
def _studies(stamp: tuple[tuple[str, int], ...]) -> Sequence[StudyFolder]:
    from skillviz.studies.store import list_studies

    by_name: dict[str, StudyFolder] = {}
    for study in list_studies(library()):
        by_name.setdefault(study.name, study)
    return list(by_name.values())


@st.cache_data(show_spinner=False, max_entries=TABLES)
def _table(name: str, path: str, finished: str | None, _study: StudyFolder) -> pd.DataFrame:
    return _study.table(name)
