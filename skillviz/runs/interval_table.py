"""The table of intervals of a whole store, made anew from stored predictions; no model is run."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from skillviz.errors import StoreError
from skillviz.runs.intervals import COLUMNS, computed
from skillviz.runs.run import COVERS, RECORD, stored_record
from skillviz.runs.score import FOLDER, SCORE_VERSION, stored_score
from skillviz.runs.score import RECORD as SCORE_RECORD


def interval_table(root: Path) -> pd.DataFrame:
    """The rows of every finished run and of all scores of older versions under a store's root, as intervals.COLUMNS."""
    frames = [_of_run(path.parent) for path in sorted(root.glob(f"*/{RECORD}"))]
    frames += [_of_score(path.parent) for path in sorted((root / FOLDER).glob(f"*/{SCORE_RECORD}"))]
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
