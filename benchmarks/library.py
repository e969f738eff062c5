"""Measure a run's overhead beside its computing, and the speed of the library with many runs.

    python benchmarks/library.py [--runs 200] [--repetitions 7] [--out benchmarks]

- *Overhead*: 200 runs of a tiny pair, by the localizer random, one after the other in one process, as in a study. The
  overhead is the clock time of a run beside its phases search and evaluate; the processor time is of the whole run.
- *Library*: copies of one of these runs, 100 and 1,000, in two folders of runs. The page Runs, `Store.list` and `runs
  list` read each of them in turn. For the page, the first visit reads every run once; a visitor usually waits for a
  later visit.

Writes library.json into results/, and the table into README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

from benchmarks.machine import machine, written
from skillviz.cli import app
from skillviz.runs.produce import produce
from skillviz.runs.run import with_checksum
from skillviz.runs.session import Session
from skillviz.runs.store import Store
from skillviz.serving.settings import RUNS_VARIABLE
from tests.runs.tiny_world import spec_of
from tests.tiny import tiny_pair, tiny_task

NAME = "library"
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


def measure(roots: dict[int, Path], repetitions: int) -> dict[str, dict[int, list[float]]]:
    """Return processor seconds by action and number of runs; the two folders take turns."""
    pages = {count: AppTest.from_file(str(PROJECT / "pages" / "runs.py"), default_timeout=600) for count in roots}
    times: dict[str, dict[int, list[float]]] = {}

    def take(what: str, count: int, act: Callable[[], Any]) -> None:
        times.setdefault(what, {}).setdefault(count, []).append(seconds(act))

    for turn in range(repetitions + 1):
        for count, root in roots.items():
            os.environ[RUNS_VARIABLE] = str(root)
            take("page Runs, first visit" if turn == 0 else "page Runs", count, pages[count].run)
            assert not pages[count].exception, pages[count].exception
            take("Store.list", count, partial(listed, root, count))
            take("runs list", count, partial(printed, root))
    return times


def listed(root: Path, count: int) -> None:
    """Read every run."""
    assert len(Store(root).list()) == count


def printed(root: Path) -> None:
    """Print the table of the runs."""
    assert CliRunner().invoke(app, ["runs", "list", "--runs-dir", str(root)]).exit_code == 0


def table(found: dict[str, Any]) -> str:
    """Return the table of the measurements, for README.md."""
    lines = [
        f"| processor seconds, median | {FEW} runs | {MANY:,} runs | ratio | target |",
        "| --- | --- | --- | --- | --- |",
    ]
    for what, times in found["library"].items():
        few, many = (statistics.median(times[str(count)]) for count in (FEW, MANY))
        target = f"{TARGET}, {'met' if many <= TARGET * few else 'missed'}" if what == "page Runs" else ""
        lines.append(f"| {what} | {few:.3f} | {many:.3f} | {many / few:.2f} | {target} |")
    beside, at = found["overhead"], found["machine"]
    lines += [
        "",
        f"Overhead of a run, median of {found['runs']}: {beside['beside']:.2f} s beside search and scores, "
        f"{beside['cpu']:.2f} processor seconds in all. {at['cpu']}, {at['cores']} cores, load at the start "
        f"{at['load']}; {found['repetitions']} repetitions in turn.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Take the measurements and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    options, at = parser.parse_args(), machine()
    with tempfile.TemporaryDirectory(prefix="skillviz-library-") as folder:
        work = Path(folder)
        rows = overhead(work, options.runs)
        one = next(iter(Store(work / "runs").list())).path
        roots = {count: copies(one, work / f"of-{count}", count) for count in (FEW, MANY)}
        times = measure(roots, options.repetitions)
    found = {
        "machine": at, "runs": options.runs, "repetitions": options.repetitions,
        "overhead": {name: statistics.median(row[name] for row in rows) for name in ("cpu", "clock", "beside")},
        "library": {what: {str(n): values for n, values in by.items()} for what, by in times.items()},
    }  # fmt: skip
    written(NAME, found, table(found), options.out)
    print(table(found))


if __name__ == "__main__":
    main()
