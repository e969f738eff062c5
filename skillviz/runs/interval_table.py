"""The table of intervals of a whole store, made anew from stored predictions; no model is run."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from skillviz.errors import StoreError
from skillviz.regular_file import folder_names
from skillviz.runs.intervals import COLUMNS, computed
from skillviz.runs.run import COVERS, stored_record
from skillviz.runs.score import FOLDER, SCORE_VERSION, stored_score
from skillviz.runs.store import Store


def interval_table(root: Path) -> pd.DataFrame:
    """The rows of every finished run and of all scores of older versions under a store's root, as intervals.COLUMNS."""
    frames = [_of_run(path) for path in Store(root).folders()]
    frames += [_of_score(root / FOLDER / name) for name in folder_names(root / FOLDER)]
    rows = [frame for frame in frames if len(frame)]
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=list(COLUMNS))


def _of_run(folder: Path) -> pd.DataFrame:
    try:
        record, version = stored_record(folder)
    except StoreError:
        return pd.DataFrame()
    if version >= COVERS or record.task is None:
        return pd.DataFrame()
    args = (record.task.name, record.metrics, record.transfers, record.task, record.temperature)
    return computed(folder, folder.name, *args)


def _of_score(folder: Path) -> pd.DataFrame:
    record = stored_score(folder)
    if record is None or record.schema_version >= SCORE_VERSION:
        return pd.DataFrame()
    dataset = record.transfer.name if record.transfer else record.task.name
    args = (dataset, record.splits, (), record.task, record.temperature)
    return computed(folder, f"{FOLDER}/{folder.name}", *args)
