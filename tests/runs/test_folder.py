"""Tests of a run while it is made: no partial file is ever visible, after any error, which is kept in words."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import numpy as np
import pandas as pd
import pytest

from skillviz import atomic, errors
from skillviz.core.region import Region
from skillviz.errors import BUG, OUT_OF_MEMORY, BadInput, DiskFull, SkillvizError, StoreError, advice, is_out_of_memory
from skillviz.runs.folder import RunFolder
from skillviz.runs.record import Failure
from skillviz.runs.record_failure import failure_of, record_failure
from skillviz.runs.run import Run, read_record
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.runs.tables import empty
from tests.refused import refuses

SHAPES = {"a": (4, 4), "b": (4,)}
FAILURE = Failure(kind="killed", message="m", hint="h")
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
RENAMES = 7  # in `fill`: one to create, two to start, three artifacts, one to finish
WRITES: dict[str, Callable[[RunFolder], object]] = {
    "table": lambda f: f.write_table("curve", empty("curve")),
    "region": lambda f: f.write_region(Region.empty(SHAPES), {}),
    "ranking": lambda f: f.write_ranking(np.array([1]), 5),
    "record": lambda f: f.update(notes=("x",)),
    "end": lambda f: f.finish(),
}


def fill(folder: RunFolder) -> Run:
    """Make all steps of a small run."""
    folder.start()
    folder.write_region(Region.from_flat(np.array([1, 5, 17]), SHAPES), {"localizer": "movement"})
    folder.write_ranking(np.array([5, 1, 17, 2]), 20)
    folder.write_table("curve", empty("curve"))
    folder.event(step=1)
    folder.log("found")
    return folder.finish(size=3)


@pytest.fixture
def folder(store: Store, spec: RunSpec) -> RunFolder:
    return store.create(spec, size=3)


def test_the_way_of_a_run(store: Store, spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = Mock(wraps=os.replace)
    monkeypatch.setattr(atomic.os, "replace", replace)
    folder = store.create(spec, size=3)
    assert json.loads((folder.path / "run.json").read_text())["status"] == "queued"
    run = fill(folder)
    assert replace.call_count == RENAMES
    assert run.record.status == "finished"
    assert run.record.started
    assert run.record.finished
    assert (sorted(run.files), [p.name for p in (run.path / "work").iterdir()], store.verify(run.id)) == (
        ["curve.parquet", "ranking.safetensors", "region.safetensors"],
        ["log.txt"],
        [],
    )
    again = store.open(run.id)
    assert again.region().flat().tolist() == [1, 5, 17]
    assert again.ranking().tolist() == [5, 1, 17, 2]
    assert again.ranking().dtype == np.int32
    assert again.cut(3) == again.region()
    assert len(again.history()) == 0
    assert again.history().columns[0] == "localizer"


def test_large_models_need_wider_indices(folder: RunFolder) -> None:
    folder.write_ranking(np.array([2**31 + 5]), 2**32)
    ranking = folder.finish().ranking()
    assert (ranking.dtype, ranking.tolist()) == (np.int64, [2**31 + 5])


@pytest.mark.parametrize("write", [*WRITES.values(), RunFolder.cancel], ids=[*WRITES, "cancel"])
def test_a_closed_run_cannot_be_changed(
    store: Store, spec: RunSpec, folder: RunFolder, write: Callable[[RunFolder], object]
) -> None:
    failed = store.create(spec)
    failed.fail(FAILURE)
    fill(folder)
    for closed in (folder, failed, RunFolder(folder.path)):
        refuses(StoreError, "cannot be changed", write, closed)
    assert store.verify(folder.id) == []


def test_a_table_that_does_not_fit_is_not_written(folder: RunFolder) -> None:
    refuses(ValueError, "missing columns", folder.write_table, "curve", pd.DataFrame({"a": [1]}))
    assert not (folder.path / "curve.parquet").exists()


@pytest.mark.parametrize("lost", range(1, RENAMES + 1))
def test_a_crash_at_any_rename_leaves_no_listed_run(
    store: Store, spec: RunSpec, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(
            atomic.os,
            "replace",
            Mock(wraps=os.replace, side_effect=[*[DEFAULT] * (lost - 1), KeyboardInterrupt, *[DEFAULT] * RENAMES]),
        )
        fill(store.create(spec))
    assert (store.list(), store.unreadable(), [*store.root.rglob("*.part"), *store.root.glob(".*")]) == ([], [], [])


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
    statuses = [entry.record.status for entry in store.unfinished()]
    assert done.returncode == -signal.SIGKILL
    assert statuses == ([] if lost == 1 else ["failed"])
    assert store.list() == []
    assert store.unreadable() == []


@pytest.mark.nightly
def test_a_reader_beside_a_writer_sees_whole_records_only(store: Store, folder: RunFolder) -> None:
    code = (
        "import sys; from pathlib import Path; from skillviz.runs.folder import RunFolder\n"
        "folder = RunFolder(Path(sys.argv[1])); folder.start()\n"
        "for i in range(60): folder.update(notes=('x' * 5000 * (i % 7),))\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(folder.path)])
    while writer.poll() is None:
        assert (store.unreadable(), len(store.unfinished())) == ([], 1)
        time.sleep(0.002)
    assert writer.returncode == 0


def test_two_that_write_one_file_at_once_do_not_meet(tmp_path: Path) -> None:
    """The starter of a job and its process may do this, because both write the process number."""
    path, inner = tmp_path / "process.json", "from within"

    def slow(part: Path) -> None:
        part.write_text("from without")
        atomic.write_text(path, inner)
        assert path.read_text() == inner

    atomic.write_file(path, slow)
    assert path.read_text() == "from without" and list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_half_written_goes_with_the_resume(folder: RunFolder, tmp_path: Path) -> None:
    folder.fail(FAILURE)
    halves = [folder.path / ".curve.parquet.12ab.part", folder.work / ".checkpoint.safetensors.34cd.part"]
    links = [folder.path / ".link", folder.work / "link"]
    for half in halves:
        half.write_bytes(b"half")
    links[0].symlink_to(tmp_path)
    folder.reopen()
    links[1].symlink_to(tmp_path)
    folder.clear_work()
    assert [path for path in (*halves, *links) if path.exists()] == [] and tmp_path.is_dir()


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_full_disk_is_one_sentence_and_leaves_what_was_there(
    store: Store, folder: RunFolder, monkeypatch: pytest.MonkeyPatch, write: Callable[[RunFolder], object]
) -> None:
    before = {path: path.is_file() and path.read_bytes() for path in folder.path.rglob("*")}
    monkeypatch.setattr(atomic, "_sync", Mock(side_effect=FULL))
    refuses(DiskFull, r"^[^\n]*--runs-dir[^\n]*\Z", write, folder)
    after = {path: path.is_file() and path.read_bytes() for path in folder.path.rglob("*")}
    assert (store.list(), after) == ([], before)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (RuntimeError("Error while writing: I/O error: No space left on device (os error 28)"), DiskFull),
        (RuntimeError("other"), RuntimeError),
        (PermissionError(13, "no"), PermissionError),
    ],
    ids=str,
)
def test_a_full_disk_within_a_library_is_seen_through(
    tmp_path: Path, error: Exception, raised: type[Exception]
) -> None:
    refuses(raised, None, atomic.write_file, tmp_path / "x", Mock(side_effect=error))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_at_the_start_leaves_no_folder(
    store: Store, spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "_sync", Mock(side_effect=FULL))
    refuses(DiskFull, None, store.create, spec)
    assert list(store.root.iterdir()) == []


@pytest.mark.parametrize("fits", [False, True])
def test_a_full_disk_takes_no_checkpoint_with_it(
    store: Store, folder: RunFolder, monkeypatch: pytest.MonkeyPatch, fits: bool
) -> None:
    """If the failure cannot be stored even without the events, the run counts as having no process and can resume."""
    checkpoint, events, real = folder.work / "checkpoint.safetensors", folder.work / "events.jsonl", atomic._sync
    folder.start()
    folder.event(phase="search", step=1)
    checkpoint.write_bytes(b"hours")
    folder.write_table("curve", empty("curve"))

    def sync(path: Path) -> None:
        if not fits or events.exists():
            raise FULL
        real(path)

    with monkeypatch.context() as patched:
        patched.setattr(atomic, "_sync", sync)
        folder.give_up(failure_of(DiskFull("there is no space left.")))
    (entry,) = store.unfinished()
    assert entry.record.status == "failed"
    assert entry.record.error.kind == ("DiskFull" if fits else "killed")
    assert store.unreadable() == []
    assert not (folder.path / "curve.parquet").exists()
    again = RunFolder(folder.path)
    again.reopen()
    assert (again.record.status, checkpoint.read_bytes()) == ("queued", b"hours")


def test_a_really_full_file_system_is_reported() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here; run on Linux")
    with pytest.raises(DiskFull), atomic.disk_errors(full), full.open("w") as file:
        file.write("x")


def test_events_and_log_grow_line_by_line(folder: RunFolder) -> None:
    for step in range(3):
        folder.event(phase="search", step=step)
    assert [json.loads(line)["step"] for line in (folder.work / "events.jsonl").read_text().splitlines()] == [0, 1, 2]


def test_a_failure_on_its_way_out_leaves_a_resumed_run_alone(folder: RunFolder) -> None:
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


OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {})  # the class name of torch.cuda's
AcceleratorError = type("AcceleratorError", (RuntimeError,), {})  # torch's name for errors of a device's driver


def tree(kind: type[SkillvizError]) -> list[type[SkillvizError]]:
    return [kind, *(k for child in kind.__subclasses__() for k in tree(child))]


@pytest.mark.parametrize("kind", [k for k in tree(SkillvizError) if k.__module__ == errors.__name__][1:])
def test_every_error_of_the_tree_has_a_hint(kind: type[SkillvizError]) -> None:
    failure = failure_of(kind("what was wrong."))
    assert failure.kind == kind.__name__
    assert failure.message == "what was wrong."
    assert failure.hint == kind.hint
    assert advice(failure.kind) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError(), OUT_OF_MEMORY),
        (OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore"), OUT_OF_MEMORY),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
            OUT_OF_MEMORY,
        ),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), OUT_OF_MEMORY),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), OUT_OF_MEMORY),
        (
            AcceleratorError("CUDA error: out of memory\nCUDA kernel errors might be reported asynchronously"),
            OUT_OF_MEMORY,
        ),
        (RuntimeError("std::bad_alloc"), OUT_OF_MEMORY),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), OUT_OF_MEMORY),
        (ZeroDivisionError("division by zero\nand more"), BUG),
        (RuntimeError("shape mismatch"), BUG),
        (AcceleratorError("CUDA error: device-side assert triggered"), BUG),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED"), BUG),
    ],
    ids=repr,
)
def test_all_ways_to_run_out_of_memory_are_known_and_anything_else_is_a_bug(error: Exception, kind: str) -> None:
    failure, is_memory = failure_of(error), kind == OUT_OF_MEMORY
    assert (failure.kind, is_out_of_memory(error), "--batch-size" in failure.hint) == (kind, is_memory, is_memory)
    words = str(error).split("\n")[0]
    assert failure.message == (words if is_memory else f"{type(error).__name__}: {words}")
