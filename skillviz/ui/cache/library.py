"""Reads of stored runs, by folder and time of completion, and the worker's answers about them.

A run is immutable once finished, so its folder and time of completion name its content for good; the list of runs is
read anew when a run.json has come, gone or changed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import pandas as pd
import streamlit as st

from skillviz.core.region import Region
from skillviz.errors import BadData, SkillvizError
from skillviz.live.client import Client
from skillviz.runs.library import Library, library
from skillviz.runs.record import RunRecord
from skillviz.runs.run import RECORD, Run
from skillviz.runs.store import Store, Unfinished, Unreadable
from skillviz.runs.texts import example_texts, task_of
from skillviz.show.entries import Entry, entry_of
from skillviz.tasks.stamp import task_stamp
from skillviz.tasks.task import Files

TABLE_READS = 256  # a pair's curve over some seventy runs, and the open run's other tables
SCAN_SECONDS = 5
HUB_SECONDS = 600  # after which data of a hub that could not be had are asked for again
ANSWERS = 64  # of the worker: so that a rerun of a page asks nothing twice


def entries() -> tuple[Entry, ...]:
    """One entry for each finished run, the user's first, each store's newest first."""
    return _entries(_stamp(library()))


def run(run_id: str) -> Run:
    """The finished run of this id or unique prefix; raises a StoreError."""
    found = library()
    listed = _runs(_stamp(found))
    return listed[run_id] if run_id in listed else found.open(run_id)


def runs(run_ids: Iterable[str]) -> list[Run]:
    """The finished runs of these ids; raises a StoreError."""
    listed = _runs(_stamp(library()))
    return [listed[run_id] if run_id in listed else run(run_id) for run_id in run_ids]


def others() -> tuple[Sequence[Unfinished], Sequence[Unreadable]]:
    """The runs that cannot be opened: queued, running, failed or cancelled; and folders that cannot be read."""
    return _others(_stamp(library()))


def note(run_id: str) -> str:
    """The user's note on a run; small and changing, so it is read each time."""
    return own_store().note(run_id)


def own_store() -> Store:
    """The user's store, the only one that the dashboard changes."""
    return library().stores[0]


def table(run: Run, name: str) -> pd.DataFrame:
    """One of the run's tables: predictions, curve, history, layers or interpolation."""
    return _table(name, str(run.path), run.record.finished, run)


def predictions(run: Run, dataset: str | None = None) -> pd.DataFrame:
    """The run's predictions on one of its data sets, on its own task's where none is named."""
    return _predictions(str(run.path), run.record.finished, dataset, run)


def region(run: Run) -> Region:
    """The run's main region."""
    return _region(str(run.path), run.record.finished, run)


def texts(run: Run, split: str) -> pd.DataFrame:
    """The texts of a split's examples, where its task's data are here and the run's own; raises a SkillvizError."""
    task, spec = task_of(run), run.spec
    stamp = task_stamp(task) if isinstance(task.data, Files) else [task.name, int(time.time() // HUB_SECONDS)]
    drawn = (spec.k_shot, spec.data_seed, spec.max_train, spec.max_validation, spec.max_test)
    told = run.record.task.fingerprint if run.record.task else ""
    found = _texts(json.dumps([stamp, drawn, told, split]), split, run)
    if isinstance(found, str):
        raise BadData(found)
    return found


def answer(run: Run, operation: str, arguments: str, client: Client, topic: str) -> dict[str, Any]:
    """The worker's answer about the run's pair; `arguments` as canonical JSON. Raises what the worker raises."""
    return _answer(run.id, run.record.finished, operation, arguments, client, topic)


def records() -> list[RunRecord]:
    """What all finished runs say of themselves."""
    return [run.record for run in _runs(_stamp(library())).values()]


def _stamp(found: Library) -> tuple[tuple[str, int], ...]:
    """The stores and their run.json files with times of change: equal stamps, equal lists."""
    stamp: list[tuple[str, int]] = []
    for store in found.stores:
        files = [folder / RECORD for folder in store.folders()]
        stamp.append((str(store.root), len(files)))
        for path in files:  # one may be deleted just now
            with suppress(OSError):
                stamp.append((str(path), path.stat().st_mtime_ns))
    return tuple(stamp)


@st.cache_data(show_spinner=False, max_entries=4)
def _entries(stamp: tuple[tuple[str, int], ...]) -> tuple[Entry, ...]:
    found = library()
    return tuple(entry_of(run, is_own=store is found.stores[0]) for store in found.stores for run in store.list())


@st.cache_resource(show_spinner=False, max_entries=4)
def _runs(stamp: tuple[tuple[str, int], ...]) -> dict[str, Run]:
    """The user's run where two stores hold one id."""
    return {run.id: run for run in reversed(library().list())}


@st.cache_data(show_spinner=False, max_entries=4, ttl=SCAN_SECONDS)
def _others(stamp: tuple[tuple[str, int], ...]) -> tuple[Sequence[Unfinished], Sequence[Unreadable]]:
    found = library()
    return found.unfinished(), found.unreadable()


@st.cache_data(show_spinner=False, max_entries=TABLE_READS)
def _table(name: str, path: str, finished: str | None, _run: Run) -> pd.DataFrame:
    return getattr(_run, name)()


@st.cache_data(show_spinner=False, max_entries=8)
def _predictions(path: str, finished: str | None, dataset: str | None, _run: Run) -> pd.DataFrame:
    return _run.predictions(dataset)


@st.cache_resource(show_spinner=False, max_entries=16)
def _region(path: str, finished: str | None, _run: Run) -> Region:
    return _run.region()


@st.cache_resource(show_spinner=False, max_entries=4)
def _texts(key: str, split: str, _run: Run) -> pd.DataFrame | str:
    """The frame, or the sentence on why there is none: reading the data to find that out takes as long."""
    try:
        return example_texts(_run, split)
    except SkillvizError as error:
        return str(error.args[0])


@st.cache_data(show_spinner=False, max_entries=ANSWERS)
def _answer(
    run_id: str, finished: str | None, operation: str, arguments: str, _client: Client, _topic: str
) -> dict[str, Any]:
    return _client.ask(operation, topic=_topic, pair={"run": run_id}, **json.loads(arguments))
