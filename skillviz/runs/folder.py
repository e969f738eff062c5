"""The folder of one run while it is being made: files are written atomically, and the final status is written last.

run.json is the record, region.safetensors the main region, ranking.safetensors the order of its entries. Predictions
are in three tables: ends.parquet has those of the pair itself (equal in all runs of a pair on the same examples),
predictions.parquet those of the graft and its complement at the main size, sizes.parquet those of the grafts at the
other sizes. All tables are declared in runs/tables.py. A study may keep its runs in one file, runs.parquet
(runs/packed.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import save_file

from skillviz.atomic import disk_errors, remove, sha256, write_file, write_text
from skillviz.core.region import Region, index_dtype
from skillviz.errors import DiskFull, StoreError, visible
from skillviz.regular_file import is_regular
from skillviz.runs import tables
from skillviz.runs.liveness import PROCESS, hold, is_alive, jobs_of, let_go, name_jobs, unname
from skillviz.runs.record import Failure, FileNote, RunRecord, Status
from skillviz.runs.run import RANKING, RECORD, REGION, Run, read_record, with_checksum

WORK = "work"
EVENTS = "events.jsonl"
LOG = "log.txt"
CHECKPOINT = "checkpoint.safetensors"
CANCEL = "cancel"
KEEP = "keep"
GROWING = "region.json"
OPEN = ("queued", "running")


class RunFolder:
    """Write access to one unfinished run. All changes to a finished run are refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = read_record(path)
        self._has_closed = False  # once closed here, it is not changed: another process may have reopened it

    @property
    def id(self) -> str:
        """The run's id."""
        return self.record.run_id

    @property
    def work(self) -> Path:
        """The folder of files needed only while the run is being made."""
        return self.path / WORK

    @property
    def is_open(self) -> bool:
        """True if the run may still be changed. Read from disk, because another process may have closed it."""
        return not self._has_closed and read_record(self.path).status in OPEN

    @property
    def is_to_stop(self) -> bool:
        """True if cancellation was requested."""
        return (self.work / CANCEL).exists()

    @property
    def keep_request(self) -> str | None:
        """The text of the request to end the search and keep its region: the step at which it ended, or empty.

        None without a request."""
        path = self.work / KEEP
        return path.read_text(encoding="utf-8") if is_regular(path) else None

    def ask_to_keep(self, stopped: str = "") -> None:
        """Store the request to end the search and keep its region, or with `stopped` the step at which it ended."""
        write_text(self.work / KEEP, stopped)

    def forget_keep_request(self) -> None:
        """Remove the request to end the search, if there is one."""
        (self.work / KEEP).unlink(missing_ok=True)

    def start(self) -> None:
        """Set the status to running, under this process."""
        self._refuse_if_closed()
        self.belongs_to_this_process()
        self.update(status="running", started=now())

    def belongs_to_this_process(self) -> bool:
        """Hold the run's lock, so that others can see that it is being made; False if another process holds it."""
        return hold(self.work)

    def reopen(self) -> None:
        """Set the status back to queued. Half-made files are removed; checkpoint, events and log are kept.

        Raises StoreError for a finished run and for a run whose process is alive.
        """
        self.record = read_record(self.path)
        if self.record.status == "finished" or is_alive(self.work):
            state = "finished" if self.record.status == "finished" else "still being made"
            raise StoreError(f"run {self.id} is {state}; there is nothing to resume.")
        if self.work.is_symlink():
            raise StoreError(
                f"the folder {WORK} of run {self.id} is a link; put a folder in its place to resume the run."
            )
        self.work.mkdir(exist_ok=True)
        if self.keep_request == "":  # it came too late: a resumed search goes on
            self.forget_keep_request()
        for path in (self.work / PROCESS, self.work / CANCEL, self.work / GROWING, *artifacts(self.path)):
            path.unlink(missing_ok=True)
        for half in (half for folder in (self.path, self.work) for half in folder.glob(".*")):
            remove(half)
        self._has_closed = False
        self._write_record({"status": "queued", "error": None, "started": None, "finished": None})

    def update(self, **fields: Any) -> None:
        """Replace these fields of run.json atomically."""
        self._refuse_if_closed()
        self._write_record(fields)

    def write_table(self, name: str, frame: pd.DataFrame) -> None:
        """Store one of the declared tables as Parquet; raises ValueError if it does not match its declaration."""
        self._refuse_if_closed()
        checked = tables.check(frame, name)
        target = self.path / tables.TABLES[name].file
        write_file(target, lambda part: checked.to_parquet(part, index=False, **tables.encoding(checked)))

    def write_region(self, region: Region, header: Mapping[str, Any]) -> None:
        """Store the main region."""
        self._refuse_if_closed()
        write_file(self.path / REGION, lambda part: region.save(part, header))

    def write_ranking(self, order: np.ndarray, d: int) -> None:
        """Store global flat indices, best first; as int32 if d allows it."""
        self._refuse_if_closed()
        order = np.ascontiguousarray(order, dtype=index_dtype(d))
        write_file(self.path / RANKING, lambda part: save_file({"order": order}, part))

    def event(self, **values: Any) -> None:
        """Append one line to work/events.jsonl, which a watcher may follow."""
        line = json.dumps({"time": round(time.time(), 3), **values})
        with disk_errors(self.work / EVENTS), (self.work / EVENTS).open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def log(self, line: str) -> None:
        """Append one line to the log, the only part of work/ that is kept."""
        with disk_errors(self.work / LOG), (self.work / LOG).open("a", encoding="utf-8") as file:
            file.write(f"{now()} {visible(line)}\n")

    def finish(self, **fields: Any) -> Run:
        """Finish the run and return it: `fields` and the hash of every file are written to run.json last."""
        self._refuse_if_closed()
        files = {p.name: FileNote(sha256=sha256(p), size=p.stat().st_size) for p in artifacts(self.path)}
        self._write_record({**fields, "status": "finished", "finished": now(), "files": files})
        self.clear_work()
        return Run(self.path, self.record)

    def fail(self, failure: Failure) -> None:
        """Set the status to failed, with the reason; written files stay, but run.json does not list them."""
        self._close("failed", error=failure)

    def give_up(self, failure: Failure) -> None:
        """Like `fail`, but also for a full disk and for a run that is already closed.

        Writing the status needs room, so half-made artifacts are removed first, then the events. The checkpoint always
        stays. If the status still does not fit, the run has no living process, and `Store` reports that. If
        cancellation was requested, the run is cancelled instead: an error while stopping is not a failure.
        """
        with suppress(StoreError):
            if self.is_to_stop:
                self.cancel()
                return
            for path in artifacts(self.path) if failure.kind == DiskFull.__name__ else ():
                path.unlink()
            try:
                self._fail_aloud(failure)
            except DiskFull:
                (self.work / EVENTS).unlink(missing_ok=True)
                self._let_go()
                self._fail_aloud(failure)

    def cancel(self) -> None:
        """Set the status to cancelled."""
        self._close("cancelled")

    def suspend(self) -> None:
        """Set the status back to queued: its cluster job was interrupted and will resume from the checkpoint."""
        self.log("interrupted by the cluster; it goes on from its checkpoint")
        self.update(status="queued", started=None)
        name_jobs(self.work, jobs_of(self.work))

    def _close(self, status: Status, **fields: Any) -> None:
        self.update(status=status, finished=now(), **fields)
        self._has_closed = True
        unname(self.work)

    def _fail_aloud(self, failure: Failure) -> None:
        """Call `fail`, after adding a line to the log if there is room."""
        with suppress(DiskFull):
            self.log(f"failed: {failure.kind}: {failure.message}")
        self.fail(failure)

    def _let_go(self) -> None:
        """Mark the run as having no process, with an empty process.json, which needs no room."""
        with suppress(OSError):
            (self.work / PROCESS).write_bytes(b"")
        let_go(self.work)

    def _write_record(self, fields: Mapping[str, Any]) -> None:
        record = RunRecord(**{**dict(self.record), **fields})
        write_text(self.path / RECORD, record_text(record))
        self.record = record

    def clear_work(self) -> None:
        """Remove the files in work/ that a finished run does not need: all but the log. Does not follow links."""
        if self.work.is_symlink():
            self.work.unlink()
            return
        for path in self.work.iterdir():
            if path.name != LOG:
                remove(path)
        if not any(self.work.iterdir()):
            self.work.rmdir()

    def _refuse_if_closed(self) -> None:
        status = read_record(self.path).status  # from disk, because another process may have closed it
        if status not in OPEN:
            raise StoreError(f"run {self.id} is {status} and cannot be changed any more.")


def artifacts(folder: Path) -> list[Path]:
    """Return the files of a run folder that run.json lists: all but itself, work/ and leftovers."""
    return sorted(p for p in folder.iterdir() if p.is_file() and p.name != RECORD and not p.name.startswith("."))


def record_text(record: RunRecord) -> str:
    """Return run.json as text, with its own hash."""
    return json.dumps(with_checksum(record.model_dump(mode="json")), indent=1, allow_nan=False) + "\n"


def now() -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
