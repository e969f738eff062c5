"""Measure a run's overhead beside its computing, and the speed of the library with many runs.

    python -m benchmarks library [--runs 200] [--repetitions 7] [--results FOLDER]

- *Overhead*: 200 runs of a tiny pair, by the localizer random, one after the other in one process, as in a study. The
  overhead is the clock time of a run beside its phases search and evaluate; the processor time is of the whole run.
- *Library*: copies of one of these runs, 100 and 1,000, in two folders of runs. The page Runs, `Store.list` and `runs
  list` read each of them in turn. For the page, the first visit reads every run once; a visitor usually waits for a
  later visit.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

from benchmarks.frame import RESULTS, ROOT, machine, store, verdict
from skillviz.cli import app
from skillviz.core.formats import markdown_table
from skillviz.runs.produce import produce
from skillviz.runs.run import with_checksum
from skillviz.runs.session import Session
from skillviz.runs.store import Store
from skillviz.serving.settings import RUNS_VARIABLE
from tests.runs.tiny_world import spec_of
from tests.tiny import tiny_pair, tiny_task

FEW, MANY = 100, 1000
TARGET = 1.5  # the largest ratio of the page's time with MANY runs to that with FEW
COMPUTING = ("search", "evaluate")


def overhead(work: Path, count: int) -> list[dict[str, float]]:
    """Return processor and clock seconds of each run, and the clock seconds beside its search and scores."""
    tiny_pair(work, steps=5)
    tiny_task(work)
    store, session, rows = Store(work / "runs"), Session(), []
    for seed in range(count):
        spec = spec_of(work, localizer="random", seed=seed)
        cpu, clock = time.process_time(), time.perf_counter()
        run = produce(spec, store, session=session)
        whole = {"cpu": time.process_time() - cpu, "clock": time.perf_counter() - clock}
        computing = sum(run.record.seconds.get(name, 0.0) for name in COMPUTING)
        rows.append({**whole, "beside": whole["clock"] - computing})
    return rows


def copies(of: Path, root: Path, count: int) -> Path:
    """Return a folder of runs with this number of copies of one run."""
    text = (of / "run.json").read_text()
    for number in range(count):
        name = f"{of.name[:-4]}{number:04d}"
        shutil.copytree(of, root / name)
        content = with_checksum(json.loads(text.replace(of.name, name)))
        (root / name / "run.json").write_text(json.dumps(content))
    return root


def seconds(act: Callable[[], Any]) -> float:
    """Return processor seconds, which exclude the work of other processes on the machine."""
    begun = time.process_time()
    act()
    return time.process_time() - begun


def measure(roots: dict[int, Path], repetitions: int) -> dict[str, dict[str, list[float]]]:
    """Return processor seconds by action and number of runs; the two folders take turns."""
    pages = {count: AppTest.from_file(str(ROOT / "pages" / "runs.py"), default_timeout=600) for count in roots}
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for turn in range(repetitions + 1):
        for count, root in roots.items():
            os.environ[RUNS_VARIABLE] = str(root)
            page, listed = pages[count], ["runs", "list", "--runs-dir", str(root)]
            times["page Runs" if turn else "page Runs, first visit"][str(count)].append(seconds(page.run))
            assert not page.exception, page.exception
            times["Store.list"][str(count)].append(seconds(Store(root).list))
            times["runs list"][str(count)].append(seconds(lambda words=listed: CliRunner().invoke(app, words)))
    return times


def table(found: dict[str, Any]) -> list[str]:
    """Return the table of the measurements, for README.md."""
    lines = []
    for what, times in found["library"].items():
        few, many = (statistics.median(times[str(count)]) for count in (FEW, MANY))
        target = verdict(many / few, TARGET) if what == "page Runs" else ""
        lines.append((what, f"{few:.3f}", f"{many:.3f}", f"{many / few:.2f}", target))
    beside, at = found["overhead"], found["machine"]
    head = ("processor seconds, median", f"{FEW} runs", f"{MANY:,} runs", "ratio", "target")
    return [
        *markdown_table(head, lines), "",
        f"Overhead of a run, median of {found['runs']}: {beside['beside']:.2f} s beside search and scores, "
        f"{beside['cpu']:.2f} processor seconds in all. {at['cpu']}, {at['cores']} cores, load at the start "
        f"{at['load']}; {found['repetitions']} repetitions in turn.",
    ]  # fmt: skip


def main(runs: int = 200, repetitions: int = 7, results: Path = RESULTS) -> None:
    """Measure a run's overhead beside its computing, and the speed of the library with many runs."""
    at = machine()
    with tempfile.TemporaryDirectory(prefix="skillviz-library-") as folder:
        work = Path(folder)
        rows = overhead(work, runs)
        one = next(iter(Store(work / "runs").list())).path
        times = measure({count: copies(one, work / f"of-{count}", count) for count in (FEW, MANY)}, repetitions)
    overheads = {name: statistics.median(row[name] for row in rows) for name in ("cpu", "clock", "beside")}
    found = {"machine": at, "runs": runs, "repetitions": repetitions, "overhead": overheads, "library": times}
    store("library", found, table(found), results)
