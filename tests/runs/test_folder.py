"""Tests of a run while it is made: no partial file is ever visible, after any error."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skillviz import atomic
from skillviz.core.region import Region
from skillviz.errors import BadInput, DiskFull, StoreError
from skillviz.runs.folder import RunFolder
from skillviz.runs.record import Failure
from skillviz.runs.record_failure import failure_of, record_failure
from skillviz.runs.run import Run, read_record
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.runs.tables import empty
from tests.fake_run import fake_run
from tests.runs.conftest import SMALL

SHAPES = {"a": (4, 4), "b": (4,)}


def fill(folder: RunFolder) -> Run:
    """Make all steps of a small run."""
    folder.start()
    region = Region.from_flat(np.array([1, 5, 17]), SHAPES)
    folder.write_region(region, {"localizer": "movement"})
    folder.write_ranking(np.array([5, 1, 17, 2]), 20)
    folder.write_table("curve", empty("curve"))
    folder.event(step=1)
    folder.log("found")
    return folder.finish(size=3)


def test_the_way_of_a_run(store: Store, spec: RunSpec) -> None:
    folder = store.create(spec, size=3)
    assert json.loads((folder.path / "run.json").read_text())["status"] == "queued"
    run = fill(folder)
    assert run.record.status == "finished" and run.record.started and run.record.finished
    assert sorted(run.files) == ["curve.parquet", "ranking.safetensors", "region.safetensors"]
    assert [p.name for p in (run.path / "work").iterdir()] == ["log.txt"]
    again = store.open(run.id)
    assert again.region().flat().tolist() == [1, 5, 17]
    assert again.ranking().tolist() == [5, 1, 17, 2] and again.ranking().dtype == np.int32
    assert again.cut(3) == again.region()
    assert len(again.history()) == 0 and again.history().columns[0] == "localizer"
    assert store.verify(run.id) == []


def test_large_models_need_wider_indices(store: Store, spec: RunSpec) -> None:
    folder = store.create(spec)
    folder.write_ranking(np.array([2**31 + 5]), 2**32)
    run = folder.finish()
    assert run.ranking().dtype == np.int64 and run.ranking()[0] == 2**31 + 5


def test_a_closed_run_cannot_be_changed(store: Store, spec: RunSpec) -> None:
    done, failed = store.create(spec), store.create(spec)
    fill(done)
    failed.fail(Failure(kind="bug", message="m", hint="h"))
    for folder in (done, failed, RunFolder(done.path)):
        for write in (
            lambda f=folder: f.write_table("curve", empty("curve")),
            lambda f=folder: f.write_region(Region.empty(SHAPES), {}),
            lambda f=folder: f.write_ranking(np.array([1]), 5),
            lambda f=folder: f.update(notes=("x",)),
            lambda f=folder: f.finish(),
            lambda f=folder: f.cancel(),
        ):
            with pytest.raises(StoreError, match="cannot be changed"):
                write()
    assert store.verify(done.id) == []


def test_a_table_that_does_not_fit_is_not_written(store: Store, spec: RunSpec) -> None:
    folder = store.create(spec)
    with pytest.raises(ValueError, match="missing columns"):
        folder.write_table("curve", pd.DataFrame({"a": [1]}))
    assert not (folder.path / "curve.parquet").exists()


RENAMES = 7  # in `fill`: one to create, two to start, three artifacts, one to finish


@pytest.mark.parametrize("lost", range(1, RENAMES + 2))
def test_a_crash_at_any_rename_leaves_no_listed_run(
    store: Store, spec: RunSpec, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    real, count = os.replace, 0

    def replace(source: Path, target: Path) -> None:
        nonlocal count
        count += 1
        if count == lost:
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(atomic.os, "replace", replace)
    if lost > RENAMES:
        fill(store.create(spec))
    else:
        with pytest.raises(KeyboardInterrupt):
            fill(store.create(spec))
    monkeypatch.undo()
    assert len(store.list()) == (lost > RENAMES)
    assert store.unreadable() == []
    assert not list(store.root.rglob("*.part"))
    assert not list(store.root.glob(".*"))


KILLED = """
import os, signal, sys
from pathlib import Path
from skillviz import atomic
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from tests.runs.test_folder import fill
real, left = os.replace, int(sys.argv[2])
def replace(source, target):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    real(source, target)
atomic.os.replace = replace
fill(Store(Path(sys.argv[1])).create(RunSpec(base="b", finetuned="f", task="t")))
"""


@pytest.mark.slow
@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("lost", [1, 4, 7])
def test_a_killed_process_leaves_no_listed_run(store: Store, lost: int) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(store.root), str(lost)], cwd=Path.cwd())
    assert done.returncode == -signal.SIGKILL
    assert store.list() == []
    statuses = [entry.record.status for entry in store.unfinished()]
    assert statuses == ([] if lost == 1 else ["failed"])
    assert store.unreadable() == []


@pytest.mark.nightly
def test_a_reader_beside_a_writer_sees_whole_records_only(store: Store, spec: RunSpec) -> None:
    folder = store.create(spec)
    code = (
        "import sys; from pathlib import Path; from skillviz.runs.folder import RunFolder\n"
        "folder = RunFolder(Path(sys.argv[1])); folder.start()\n"
        "for i in range(60): folder.update(notes=('x' * 5000 * (i % 7),))\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(folder.path)])
    seen = 0
    while writer.poll() is None:
        assert store.unreadable() == []
        assert len(store.unfinished()) == 1
        seen += 1
        time.sleep(0.002)
    assert writer.returncode == 0 and seen


def test_two_that_write_one_file_at_once_do_not_meet(tmp_path: Path) -> None:
    """The starter of a job and its process may do this, because both write the process number."""
    path, inner = tmp_path / "process.json", "from within"

    def slow(part: Path) -> None:
        part.write_text("from without")
        atomic.write_text(path, inner)
        assert path.read_text() == inner

    atomic.write_file(path, slow)
    assert path.read_text() == "from without" and list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_half_written_goes_with_the_resume(store: Store, spec: RunSpec) -> None:
    folder = store.create(spec)
    folder.fail(Failure(kind="killed", message="m", hint="h"))
    halves = [folder.path / ".curve.parquet.12ab.part", folder.work / ".checkpoint.safetensors.34cd.part"]
    for half in halves:
        half.write_bytes(b"half")
    elsewhere = store.root.parent / "elsewhere"
    elsewhere.mkdir()
    halves += [folder.path / ".link", folder.work / "link"]
    halves[2].symlink_to(elsewhere)
    folder.reopen()
    halves[3].symlink_to(elsewhere)
    folder.clear_work()
    assert not any(half.exists() for half in halves) and elsewhere.is_dir()


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "write",
    [
        lambda f: f.write_table("curve", empty("curve")),
        lambda f: f.write_region(Region.empty(SHAPES), {}),
        lambda f: f.write_ranking(np.array([1]), 5),
        lambda f: f.update(notes=("x",)),
        lambda f: f.finish(),
    ],
)
def test_a_full_disk_is_one_sentence_and_leaves_what_was_there(
    store: Store, spec: RunSpec, monkeypatch: pytest.MonkeyPatch, write: Callable[[RunFolder], object]
) -> None:
    folder = store.create(spec)
    before = (folder.path / "run.json").read_text()
    monkeypatch.setattr(atomic, "_sync", full_disk)
    with pytest.raises(DiskFull, match="--runs-dir") as caught:
        write(folder)
    assert "\n" not in str(caught.value)
    assert (folder.path / "run.json").read_text() == before
    assert [p.name for p in folder.path.iterdir()] != [] and not list(folder.path.glob(".*.part"))
    assert store.list() == []


def test_a_full_disk_within_a_library_is_seen_through(tmp_path: Path) -> None:
    def wrapped(part: Path) -> None:
        raise RuntimeError("Error while writing: I/O error: No space left on device (os error 28)")

    with pytest.raises(DiskFull):
        atomic.write_file(tmp_path / "x", wrapped)
    with pytest.raises(RuntimeError, match="other"):
        atomic.write_file(tmp_path / "x", lambda part: (_ for _ in ()).throw(RuntimeError("other")))
    with pytest.raises(PermissionError):
        atomic.write_file(tmp_path / "x", lambda part: (_ for _ in ()).throw(PermissionError(13, "no")))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_at_the_start_leaves_no_folder(
    store: Store, spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "_sync", full_disk)
    with pytest.raises(DiskFull):
        store.create(spec)
    assert list(store.root.iterdir()) == []


@pytest.mark.parametrize("fits", [False, True])
def test_a_full_disk_takes_no_checkpoint_with_it(
    store: Store, spec: RunSpec, monkeypatch: pytest.MonkeyPatch, fits: bool
) -> None:
    """If the failure cannot be stored even without the events, the run counts as having no process and can resume."""
    folder = store.create(spec)
    folder.start()
    folder.event(phase="search", step=1)
    (folder.work / "checkpoint.safetensors").write_bytes(b"hours")
    folder.write_table("curve", empty("curve"))
    real = atomic._sync

    def sync(path: Path) -> None:
        if not fits or (folder.work / "events.jsonl").exists():
            full_disk()
        real(path)

    monkeypatch.setattr(atomic, "_sync", sync)
    folder.give_up(failure_of(DiskFull("there is no space left.")))
    monkeypatch.undo()
    (entry,) = store.unfinished()
    assert entry.record.status == "failed" and entry.record.error.kind == ("DiskFull" if fits else "killed")
    assert (folder.work / "checkpoint.safetensors").read_bytes() == b"hours"
    assert not (folder.path / "curve.parquet").exists() and store.unreadable() == []
    again = RunFolder(folder.path)
    again.reopen()
    assert again.record.status == "queued" and (again.work / "checkpoint.safetensors").is_file()


def test_a_really_full_file_system_is_reported(store: Store, spec: RunSpec) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here; run on Linux")
    with pytest.raises(DiskFull), atomic.disk_errors(full), full.open("w") as file:
        file.write("x")


def test_events_and_log_grow_line_by_line(store: Store, spec: RunSpec) -> None:
    folder = store.create(spec)
    for step in range(3):
        folder.event(phase="search", step=step)
    lines = (folder.work / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 1, 2]


def test_the_invented_run_is_complete_and_the_same_again(tmp_path: Path) -> None:
    one, two = (fake_run(Store(tmp_path / name), **SMALL) for name in ("one", "two"))
    assert one.record.metrics == two.record.metrics
    pd.testing.assert_frame_equal(one.predictions(), two.predictions())
    assert set(one.predictions()["state"]) == {"pretrained", "finetuned", "grafted", "complement"}
    assert sorted(one.curve()["size"].unique()) == sorted(one.record.sizes)
    assert one.layers()["selected"].sum() == one.record.size == one.region().size
    assert one.cut(one.region().size) == one.region()


def test_a_failure_on_its_way_out_leaves_a_resumed_run_alone(store: Store, spec: RunSpec) -> None:
    folder = store.create(spec)
    folder.start()
    with pytest.raises(BadInput), record_failure(folder):
        with pytest.raises(BadInput), record_failure(folder):
            raise BadInput("once")
        assert read_record(folder.path).error.message == "once"
        RunFolder(folder.path).reopen()
        raise BadInput("once")
    assert (read_record(folder.path).status, read_record(folder.path).error) == ("queued", None)
    folder.reopen()
    folder.start()
    assert folder.is_open
