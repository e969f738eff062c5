"""Reading the records of older versions, and refusing those of newer ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from skillviz.errors import CorruptRun, NewerSchema
from skillviz.tasks.task import CLASSIFICATION

SCHEMA_VERSION = 9


def _with_kind(record: dict[str, Any]) -> dict[str, Any]:
    """The record with its task's kind; a record that was written before its task was read has none."""
    task = record.get("task")
    return record | ({"task": {**task, "kind": CLASSIFICATION}} if isinstance(task, Mapping) else {})


# version -> what turns a record of that version into one of the next; a frozen tiny run of every
# version stays in tests/runs/frozen/
# 2: other tasks (`others` of the spec, `transfers`), sizes and histograms of the WiSE grid; none of it is in a 1
# 3: intervals of calibration errors about a debiased value; those of older runs are replaced (runs/intervals.py)
# 4: the task's kind: examples may have options of their own, and a score of NO_OPTION where they have fewer than there
#    are labels; a reader of 3 would take that for a class. All older runs are of tasks with classes
# 5: tasks whose answer is generated, with columns of their own in predictions.parquet; none of it is in a 4
# 6: tasks scored by the perplexity of references, with two of these columns; none of it is in a 5
# 7, 8: other intervals of differences of calibration errors, 9: of equal mass; those of older runs are replaced
#    (runs/intervals.py)
MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: dict, 2: dict, 3: _with_kind, 4: dict, 5: dict, 6: dict, 7: dict, 8: dict,
}  # fmt: skip


def migrated(
    record: Mapping[str, Any],
    *,
    current: int = SCHEMA_VERSION,
    migrations: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = MIGRATIONS,
) -> dict[str, Any]:
    """The record as the current version writes it; the argument is left as it is.

    Raises NewerSchema where a later version wrote it, CorruptRun where it names no version.
    """
    version = record.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CorruptRun("run.json names no schema version, so it was not written by skillviz.")
    if version > current:
        raise NewerSchema(
            f"run.json has schema version {version}, this skillviz reads up to {current}; update skillviz to open it."
        )
    result = dict(record)
    while version < current:
        result = migrations[version](result) | {"schema_version": version + 1}
        version += 1
    return result
