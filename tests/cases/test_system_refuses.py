"""Tests of a system that refuses files, folders, names, locks and space: work goes on, or the user's path is named."""

import errno
import fcntl
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from streamlit.testing.v1 import AppTest

from skillviz import atomic, locks
from skillviz.commands.process import sentence_for
from skillviz.errors import (
    BadInput,
    CorruptFile,
    CorruptRun,
    DiskFull,
    NotReadable,
    RunNotFound,
    SkillvizError,
    StoreError,
    visible,
)  # fmt: skip
from skillviz.jobs.slots import device_for_run, devices_for_study, queue, take_ticket
from skillviz.models import applied, difference
from skillviz.models.frozen_tensors import strip
from skillviz.models.local_models import find_models
from skillviz.runs import packed
from skillviz.runs.doctor import findings, mended
from skillviz.runs.liveness import DEAD, UNKNOWN, hold, life, process_of, unname
from skillviz.runs.run import RECORD, with_checksum
from skillviz.runs.store import NOTES, Library, written
from skillviz.serving import quota
from skillviz.studies.store import FOLDER, studies_in, unreadable_studies
from skillviz.tasks.uploaded import saved
from skillviz.ui import cache
from skillviz.ui.page_table import PAGES
from tests import visitor
from tests.cases.build import Run, RunSpec, Store, by_hand, change_weights, refuses, tiny_pair
from tests.cli.calls import call, done
from tests.runs.conftest import made
from tests.studies.fake_study import fake_study

BAD = os.fsdecode(b"bad-\xff")
Refuse = Callable[[Path, int], None]


def error(code: int, *places: object) -> OSError:
    return OSError(code, os.strerror(code), *map(str, places))


@pytest.fixture
def store(made: Run, tmp_path: Path) -> Store:
    """Return the user's store, of three complete runs; the tests damage the second."""
    store = Store(tmp_path / "runs")
    for letter in "abc":
        folder = shutil.copytree(made.path, store.root / f"{made.id}-{letter}")
        record = json.loads((folder / RECORD).read_text()) | {"run_id": folder.name}
        (folder / RECORD).write_text(json.dumps(with_checksum(record)))
    return store


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Make the system raise an error for each access to a path or to anything below it."""
    refused: dict[Path, int] = {}

    def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            here = Path(os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else Path()
            for place in {here, *here.parents} & refused.keys():
                raise error(refused[place], here)
            return real(path, *args, **kwargs)

        return call

    for name in ("stat", "open", "listdir", "scandir", "lstat"):
        monkeypatch.setattr(os, name, guarded(getattr(os, name)))
    for module in ("builtins", "io"):
        monkeypatch.setattr(sys.modules[module], "open", guarded(io.open))
    return refused.__setitem__


def ids(store: Store) -> list[str]:
    return sorted(run.id[-1] for run in store.list())


def cures(found: Any) -> list[tuple[Path, str]]:
    return [(finding.path, finding.cure) for finding in found]


@pytest.mark.cases(4, 2)
@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ESTALE])
@pytest.mark.parametrize("part", ["", RECORD, "curve.parquet"])
def test_a_run_that_may_not_be_read_is_listed_and_left(store: Store, refuse: Refuse, part: str, code: int) -> None:
    broken = store.list()[1].path
    refuse(broken / part, code)
    assert ids(store) == sorted({"a", "b", "c"} - {broken.name[-1]})
    (brief,), (finding,), why = store.unreadable(), findings(store), os.strerror(code)
    assert (brief.path, type(brief.error), finding.cure) == (broken, NotReadable, "left")
    assert why in brief.reason and why in finding.problem
    refuses(NotReadable, why, store.open, broken.name)
    mended(store)
    assert broken.name in os.listdir(store.root), "nothing is moved that nobody could look at"


@pytest.mark.nightly
def test_a_file_that_breaks_while_it_is_read_ends_neither_verify_nor_doctor(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, real = store.list()[1], packed.sha256

    def failing(path: Path) -> str:
        if path == broken.path / "curve.parquet":
            raise error(errno.EIO, path)
        return real(path)

    monkeypatch.setattr(packed, "sha256", failing)
    assert [len(store.verify(run.id)) for run in store.list()] == [0, 1, 0]
    said = call("runs", "verify", "--runs-dir", store.root)
    assert said.code == 2 and said.out.count("unchanged") >= 2
    assert f"{broken.id}: curve.parquet cannot be read (Input/output error)" in said.out
    assert cures(mended(store)) == [(broken.path, "left")]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO])
def test_a_store_that_may_not_be_listed_is_itself_what_cannot_be_read(
    store: Store, made: Run, refuse: Refuse, code: int
) -> None:
    refuse(store.root, code)
    both = Library([store, Store(made.path.parent)])
    (brief,) = both.unreadable()
    assert brief.path == store.root and os.strerror(code) in brief.reason
    # the run is in the other store
    assert (store.list(), [run.id for run in both.list()], both.open(made.id).id) == ([], [made.id], made.id)
    refuses(NotReadable, "cannot be read", both.open, "nothing-like-it")
    assert cures(findings(store)) == [(store.root, "left")]


@pytest.mark.nightly
def test_a_folder_name_that_is_not_utf_8_is_listed_as_it_can_be_printed(store: Store) -> None:
    shutil.copytree(store.list()[0].path, store.root / BAD)
    (brief,) = store.unreadable()
    assert (ids(store), type(brief.error)) == (["a", "b", "c"], CorruptRun)
    for words in (brief.name, brief.reason):
        assert "bad-\\udcff" in words and words.encode("utf-8")
    for command in ("list", "verify"):
        said = call("runs", command, "--runs-dir", store.root)
        assert "bad-\\udcff" in said.out + said.err and store.list()[0].id in said.out
    call("runs", "doctor", "--runs-dir", store.root)
    assert store.unreadable() == [] and ids(store) == ["a", "b", "c"]


@pytest.mark.parametrize("make", [lambda path: None, os.mkdir, os.mkfifo], ids=["nothing", "a folder", "a pipe"])
def test_a_run_without_its_record_is_named_by_doctor(store: Store, make: Callable[[Path], None]) -> None:
    run = store.list()[0]
    lost = Path(shutil.copytree(run.path, store.root / "lost"))
    (lost / RECORD).unlink()
    make(lost / RECORD)
    (found,) = [one for one in findings(store) if one.path == lost]
    assert found.cure == "left" and RECORD in found.problem
    assert mended(store) and lost.is_dir() and [one.path for one in store.list()].count(run.path) == 1


def noted(store: Store, run: Run) -> Path:
    place = store.root / NOTES / f"{run.id}.txt"
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"caf\xe9")
    return place


def test_a_note_that_is_not_utf_8_is_said_and_kept(store: Store) -> None:
    run = store.list()[0]
    place = noted(store, run)
    refuses(NotReadable, "not UTF-8", store.note, run.id)
    refuses(RunNotFound, None, store.open, "nothing-like-it")  # no such run stays its own error
    assert cures(mended(store)) == [(place, "left")] and place.read_bytes() == b"caf\xe9"
    done("runs", "list", "--runs-dir", store.root)


def opened(page: str, **query: str) -> AppTest:
    test = visitor.opened(page, **query)
    assert not test.exception
    return test


@pytest.mark.usefixtures("empty")
@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("page", ["runs", "jobs", "overview", "home"])
def test_pages_go_on(store: Store, page: str) -> None:
    first = store.list()[0]
    shutil.copytree(first.path, store.root / BAD)
    for run in store.list():
        noted(store, run)
    test = opened(page, run=first.id)
    assert not test.error and len(cache.briefs()) == 3
    assert page != "runs" or any("bad-\\udcff" in words.value for words in test.markdown)


@pytest.mark.usefixtures("empty")
def test_a_page_over_a_store_that_may_not_be_listed_says_so(store: Store, refuse: Refuse) -> None:
    refuse(store.root, errno.EACCES)
    assert any("Permission denied" in words.value for words in opened("runs").markdown)


@pytest.mark.usefixtures("empty")
def test_studies_that_cannot_be_read_are_named(store: Store, refuse: Refuse) -> None:
    whole, broken = fake_study(store.root, "table1"), fake_study(store.root, "figure5")
    refuse(broken / "study.json", errno.EIO)
    assert [study.path for study in studies_in(store)] == [whole]
    (brief,) = unreadable_studies(store)
    assert brief.path == broken and "Input/output error" in brief.reason
    said = call("runs", "doctor", "--dry-run", "--runs-dir", store.root)
    assert "figure5" in said.out and "Input/output error" in said.out
    assert any("Input/output error" in each.value for each in opened("studies").warning)
    refuse(store.root / FOLDER, errno.EACCES)
    assert studies_in(store) == [] and [brief.path for brief in unreadable_studies(store)] == [store.root / FOLDER]


def test_folders_of_models_and_tasks_that_cannot_be_read_are_passed_over(tmp_path: Path, refuse: Refuse) -> None:
    for name in ("a", "b", BAD):
        (tmp_path / name).mkdir()
        for file, content in (("config.json", "{}"), ("task.yaml", "name: x"), ("model.safetensors", "")):
            if name != BAD:
                (tmp_path / name / file).write_text(content)
    refuse(tmp_path / "a", errno.EIO)
    assert find_models([tmp_path]).models == () and saved(tmp_path) == [tmp_path / "b" / "task.yaml"]


def no_flock(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=error(code)))
    monkeypatch.setattr(locks, "_known", {})


@pytest.fixture(params=sorted(set(locks.NO_LOCKS)), ids=errno.errorcode.get)
def without_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every file lock fail, as on file systems without locks, under any of their errors."""
    no_flock(monkeypatch, request.param)


@pytest.mark.usefixtures("without_locks")
def test_everything_that_takes_turns_goes_on_one_at_a_time(tmp_path: Path) -> None:
    with locks.lock_at(tmp_path / "lock"), pytest.raises(locks.Timeout):
        locks.lock_at(tmp_path / "lock", blocking=False).acquire()
    with locks.lock_at(tmp_path / "lock", blocking=False):
        pass
    store = Store(tmp_path / "runs")
    folder = store.create(RunSpec(base="b", finetuned="f", task="t", device="cpu"))
    with quota.in_turn(store.root), atomic.folder_lock(tmp_path / "made"):
        take_ticket(store.root, "cpu", folder.id)
    with device_for_run(store.root, "cpu", folder.id, lambda before: pytest.fail("nobody is before it")):
        assert queue(store.root, "cpu") == [folder.id]
        with (
            pytest.raises(InterruptedError),
            devices_for_study(store.root, ["cpu"], Mock(side_effect=InterruptedError)),
        ):
            pass
    with devices_for_study(store.root, ["cpu"], lambda slot: pytest.fail("it is free")):
        pass


@pytest.mark.usefixtures("without_locks")
def test_whether_a_process_lives_is_unknown(tmp_path: Path) -> None:
    assert life(tmp_path) == DEAD and hold(tmp_path) and life(tmp_path) == UNKNOWN and process_of(tmp_path) is None
    unname(tmp_path)
    assert life(tmp_path) == DEAD


@pytest.mark.usefixtures("without_locks")
def test_the_file_of_a_process_that_was_killed_stands_in_nobody_s_way(tmp_path: Path) -> None:
    code = "import sys, os, filelock; lock = filelock.SoftFileLock(sys.argv[1]); lock.acquire(); os._exit(0)"
    path = f"{tmp_path / 'lock'}{locks.SOFT}"
    subprocess.run([sys.executable, "-c", code, path], check=True)
    assert os.path.exists(path)
    with locks.lock_at(tmp_path / "lock", timeout=10):
        pass


def test_with_locks_the_system_s_own_are_taken_and_another_error_is_no_missing_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_known", {})
    with locks.lock_at(tmp_path / "lock") as lock:
        assert lock.lock_file == str(tmp_path / "lock") and locks.has_locks(tmp_path)
    # the error of a folder that is not there comes when the lock is taken
    assert locks.lock_at(tmp_path / "nowhere" / "lock").lock_file.endswith("lock")
    no_flock(monkeypatch, errno.EIO)
    refuses(OSError, "Input/output", locks.lock_at(tmp_path / "lock", blocking=False).acquire)


DRAFT = re.compile(r"\.part|\.old|-\d+-[0-9a-f]{8}")
FAILURES: dict[str, Callable[[Path], Exception]] = {
    "sentence": lambda draft: CorruptFile(f"{draft / 'a.safetensors'} is not complete; '{draft.name}' is bad."),
    "system": lambda draft: PermissionError(errno.EACCES, "Permission denied", str(draft / "a" / "b.json")),
    "copy": lambda draft: OSError(errno.EIO, "Input/output error", str(draft / "a"), None, str(draft / "b")),
    "full": lambda draft: error(errno.ENOSPC, draft / "model.safetensors"),
    "library": lambda draft: RuntimeError(f"Error while serializing {draft}/x: No space left on device (os error 28)"),
}
"""The errors that a library or skillviz may raise while a draft is filled."""


def failing(draft: Path, kind: str) -> None:
    raise FAILURES[kind](draft)


full_disk = Mock(side_effect=error(errno.ENOSPC))


def once(target: Path, kind: str) -> None:
    with atomic.whole_folder(target) as draft:
        failing(draft, kind)


def twice(target: Path, kind: str) -> None:
    with atomic.whole_folder(target) as outer, atomic.whole_folder(outer, replace=True) as inner:
        failing(inner, kind)


def file(target: Path, kind: str) -> None:
    atomic.write_file(target, lambda part: failing(part, kind))


@pytest.mark.parametrize(
    ("fill", "name", "kind"),
    [
        *((once, name, kind) for name in ("out", "my model.v2", ".hidden") for kind in FAILURES),
        *((fill, "out.json", kind) for fill in (twice, file) for kind in ("sentence", "system", "full")),
    ],
)
def test_what_fails_in_a_draft_is_said_of_its_target(
    tmp_path: Path, fill: Callable[[Path, str], None], name: str, kind: str
) -> None:
    with pytest.raises((SkillvizError, OSError)) as caught:
        fill(tmp_path / name, kind)
    sentence = sentence_for(caught.value)
    assert sentence is not None and not DRAFT.search(sentence) and name in sentence and str(tmp_path) in sentence
    assert name != "out.json" or str(tmp_path / name) in sentence or f"out.json in {tmp_path}" in sentence


test_words_that_are_no_draft_stay = by_hand(
    *((text, text, visible, text) for text in (
        "a.part of b.old", "'.git' or .out", "x/.env.part", ".out.12345678-1-abc.part", "1.2-3-4.part")),
)  # fmt: skip


def test_a_full_folder_of_temporary_files_is_named_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(atomic.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    with pytest.raises(DiskFull) as caught, atomic.whole_folder(tmp_path / "out"), atomic.working_folder() as folder:
        failing(folder, "full")
    assert f"in {tmp_path / 'tmp'}" in str(caught.value) and "TMPDIR" in str(caught.value)
    assert not DRAFT.search(str(caught.value))


def moved(tuned: Path, factor: float, by: float = 0.0) -> None:
    change_weights(tuned, lambda tensors: {name: factor * tensor + by for name, tensor in tensors.items()})


def refuse_to_copy(source: Path, target: Path) -> None:
    raise error(errno.EIO, source)


def sharded(tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tuned / "model.safetensors").rename(tuned / "part-1.safetensors")
    (tuned / "model.safetensors.index.json").write_text('{"weight_map": {"x": "part-1.safetensors"}}')


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda tuned, patch: moved(tuned, 1, by=1), "'finetuned'"),  # no tensor equals the base's
        (lambda tuned, patch: moved(tuned, 1e9), "'finetuned'"),  # beyond float16
        (sharded, "'finetuned'"),
        (lambda tuned, patch: patch.setattr(difference, "strip", full_disk), "write shared in "),
        (lambda tuned, patch: patch.setattr(shutil, "copyfile", refuse_to_copy), "finetuned/config.json"),
    ],
)
def test_the_difference_command_names_the_model_or_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path, pytest.MonkeyPatch], None], words: str
) -> None:
    base, tuned = tiny_pair(tmp_path)
    damage(tuned, monkeypatch)
    said = call("difference", "--base", base, "--finetuned", tuned, "--out", tmp_path / "shared")
    assert said.code == 2 and words in said.err, said.err
    assert not DRAFT.search(said.err) and "cannot be written" not in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "finetuned"]


def test_a_folder_that_is_stripped_in_place_is_named(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    moved(tuned, 1, by=1)
    refuses(BadInput, "no tensor of 'finetuned'", strip, tuned, base)


def test_a_full_disk_while_a_model_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applied, "write_files", full_disk)
    refuses(DiskFull, f"write model in {tmp_path};", applied.write_model, tmp_path / "model", None, None)


@pytest.mark.parametrize("place", ["elsewhere/run.json", "runs", "runs/a/run.json", ""])
def test_what_could_not_be_read_is_not_called_unwritable(tmp_path: Path, place: str) -> None:
    source = str(tmp_path / place)
    with pytest.raises((OSError, StoreError)) as caught, written(tmp_path / "runs"):
        raise PermissionError(errno.EACCES, "Permission denied", source)
    sentence, is_own = str(sentence_for(caught.value)), place != "elsewhere/run.json"
    assert isinstance(caught.value, StoreError) is is_own is ("cannot be written" in sentence)
    assert is_own or source in sentence and "name a place that you can write to" not in sentence
