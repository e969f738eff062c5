"""Everything the dashboard keeps in memory: reads of stored runs, by folder and time of completion.

Nothing is computed here; what a live page shows is asked of the worker. A run is immutable once finished, so its
folder and time of completion name its content for good; the list of runs is read anew when a run.json has come,
gone or changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from skillviz.core.region import Region
from skillviz.live.client import Client
from skillviz.runs.library import Library, library
from skillviz.runs.run import RECORD, Run
from skillviz.runs.store import Store, Unfinished, Unreadable
from skillviz.ui.entries import Entry, entry_of

TABLE_READS = 256  # a pair's curve over some seventy runs, and the open run's other tables
SCAN_SECONDS = 5
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


def region(run: Run) -> Region:
    """The run's main region."""
    return _region(str(run.path), run.record.finished, run)


def answer(run: Run, operation: str, arguments: str, client: Client, topic: str) -> dict[str, Any]:
    """The worker's answer about the run's pair; `arguments` as canonical JSON. Raises what the worker raises."""
    return _answer(run.id, run.record.finished, operation, arguments, client, topic)


def _stamp(found: Library) -> tuple[tuple[str, int], ...]:
    """The stores and their run.json files with times of change: equal stamps, equal lists."""
    stamp = []
    for store in found.stores:
        files = sorted(store.root.glob(f"*/{RECORD}"))
        stamp += [(str(store.root), len(files)), *((str(path), path.stat().st_mtime_ns) for path in files)]
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


@st.cache_resource(show_spinner=False, max_entries=16)
def _region(path: str, finished: str | None, _run: Run) -> Region:
    return _run.region()


@st.cache_data(show_spinner=False, max_entries=ANSWERS)
def _answer(
    run_id: str, finished: str | None, operation: str, arguments: str, _client: Client, _topic: str
) -> dict[str, Any]:
    return _client.ask(operation, topic=_topic, pair={"run": run_id}, **json.loads(arguments))
