"""Make a stored study in the engine's form, with invented but plausible numbers; nothing is trained."""

import functools
import hashlib
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from skillviz.analysis.tables import check
from skillviz.runs.liveness import LOCK, name_process
from skillviz.studies.store import StudyRecord, write_record
from tests.studies.fake_tables import FAKE_TABLES, TASKS


def fake_study(
    root: Path,
    experiment: str = "table1",
    scale: str = "small",
    *,
    name: str = "",
    tables: Sequence[str] | None = None,
    status: str = "finished",
    tasks: Sequence[str] = TASKS,
    seed: int = 0,
    **record: Any,
) -> Path:
    """Write `<root>/studies/<name>` and return it; by default it has all tables."""
    name = name or f"{experiment}-{scale}"
    folder = root / "studies" / name
    folder.mkdir(parents=True)
    (folder / "study.yaml").write_text(_yaml(name, experiment, scale), encoding="utf-8")
    for table, content in _contents(tuple(FAKE_TABLES if tables is None else tables), tuple(tasks), seed).items():
        (folder / f"{table}.parquet").write_bytes(content)
    files = {
        path.name: {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "size": path.stat().st_size}
        for path in sorted(folder.iterdir())
    }
    write_record(folder, StudyRecord(**{
        "name": name, "title": "", "status": status, "experiment": experiment, "scale": scale,
        "command": f"python -m skillviz reproduce {experiment} --scale {scale}",
        "started": "2026-11-20T10:00:00+00:00",
        "finished": "2026-11-20T10:05:00+00:00" if status == "finished" else None,
        "seconds": 300.0 if status == "finished" else 0.0,
        "versions": {"skillviz": "0.1.0"}, "device": "cpu", "files": files, **record,
    }))  # fmt: skip
    return folder


@functools.cache  # many tests use the same study
def _contents(tables: tuple[str, ...], tasks: tuple[str, ...], seed: int) -> dict[str, bytes]:
    """Return each table as the bytes of its file."""
    random = np.random.default_rng(seed)
    return {table: check(FAKE_TABLES[table](tasks, random), table).to_parquet(index=False) for table in tables}


def _yaml(name: str, experiment: str, scale: str) -> str:
    return (
        f"name: {name}\nrequest: {{experiment: {experiment}, scale: {scale}}}\n"
        "defaults: {base: examples/models/minilm-l6, readout: head}\n"
        "runs:\n"
        "- {task: examples/tasks/mr.yaml, finetuned: examples/pairs/mr-sgd,\n"
        "   localizer: [movement], size: ['1%']}\n"
    )


def works_on(process: subprocess.Popen[str], work: Path) -> None:
    """Let a `sleeper` work on a folder: it holds the folder's lock."""
    name_process(work, process.pid)
    print(work / LOCK, file=process.stdin, flush=True)
    process.stdout.readline()


def fake_running(
    root: Path, process: subprocess.Popen[str] | None, name: str = "table2-small", *, step: int = 4, of: int = 31
) -> Path:
    """Make a study that a `sleeper` works on; a cancel ends it. Without a process the study is stopped."""
    folder = fake_study(root, "table2", name=name, tables=(), status="running")
    work = folder / "work"
    work.mkdir()
    if process is None:
        name_process(work, 2**22 - 1)
    else:
        works_on(process, work)
    (work / "events.jsonl").write_text(
        json.dumps(
            {
                "time": time.time(), "step": step, "of": of, "key": "x", "kind": "localize",
                "title": "localize mr with stagewise", "what": "started", "left": 150.0,
            }
        )
        + "\n",
        encoding="utf-8",
    )  # fmt: skip
    (work / "log.txt").write_text("3 of 31 finished: fine-tune mr\n", encoding="utf-8")
    return folder
