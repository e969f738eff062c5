"""Tests of folders that a reader sees either complete or not at all; for files see tests/runs/test_folder.py."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from skillviz import atomic
from skillviz.errors import BadInput, DiskFull


def fill(folder: Path, text: str = "new") -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "a.txt").write_text(text)
    (folder / "b.txt").write_text(text)


def texts(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


NEW, OLD = {"deep/a.txt": "new", "b.txt": "new"}, {"old.txt": "old"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a folder that a test replaces, alone in its folder."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old.txt").write_text("old")
    return tmp_path / "model"


def left(folder: Path) -> dict[str, dict[str, str]]:
    """Return the texts of each folder in a folder, hidden ones too."""
    return {path.name: texts(path) for path in folder.iterdir()}


def test_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "parents" / "model"
    with atomic.whole_folder(target) as draft:
        fill(draft)
        assert not target.exists() and draft.parent == target.parent and draft.name.startswith(".model.")
    assert texts(target) == NEW and list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("replace", [False, True])
def test_a_body_that_fails_leaves_what_was_there(model: Path, error: type[BaseException], replace: bool) -> None:
    target = model if replace else model.parent / "another"
    with pytest.raises(error), atomic.whole_folder(target, replace=replace) as draft:
        fill(draft)
        raise error
    assert left(model.parent) == {"model": OLD}


def test_a_folder_is_replaced_only_where_that_is_said(model: Path) -> None:
    with pytest.raises(OSError), atomic.whole_folder(model) as draft:
        fill(draft)
    assert left(model.parent) == {"model": OLD}
    with atomic.whole_folder(model, replace=True) as draft:
        fill(draft)
        assert texts(model) == OLD
    assert left(model.parent) == {"model": NEW}


def test_what_was_there_stays_where_the_draft_cannot_take_its_place(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = atomic.os.replace

    def fails(source: Path, place: Path) -> None:
        if place == model and not (source / "old.txt").exists():
            raise PermissionError(13, "no")
        really(source, place)

    monkeypatch.setattr(atomic.os, "replace", fails)
    with pytest.raises(PermissionError), atomic.whole_folder(model, replace=True) as draft:
        fill(draft)
    assert left(model.parent) == {"model": OLD}


def test_every_file_is_on_disk_before_the_folder_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, synced = tmp_path / "model", []
    monkeypatch.setattr(atomic, "_sync", lambda path: synced.append((path.name, target.exists())))
    with atomic.whole_folder(target) as draft:
        fill(draft)
    assert {name for name, is_there in synced if not is_there} == {"deep", "a.txt", "b.txt", draft.name} and synced[
        -1
    ] == (tmp_path.name, True)


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "_sync", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with (
        pytest.raises(DiskFull, match=r"^[^\n]*model in .*--out[^\n]*$"),
        atomic.whole_folder(tmp_path / "model") as draft,
    ):
        fill(draft)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from skillviz import atomic
from tests.test_atomic import fill
target = Path(sys.argv[1])
with atomic.folder_lock(target), atomic.whole_folder(target) as draft:
    fill(draft)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    target = tmp_path / "model"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(target)], cwd=Path.cwd())
    assert (killed.returncode, len(list(tmp_path.glob(".model.*")))) == (-signal.SIGKILL, 1) and not target.exists()
    with atomic.folder_lock(target):
        assert not list(tmp_path.glob(".model.*"))


def test_a_folder_is_removed_at_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []
    monkeypatch.setattr(atomic.shutil, "rmtree", lambda path, *_: seen.append(path))
    atomic.remove_folder(model)
    assert not model.exists() and texts(seen[0]) == OLD and seen[0].name.startswith(".")


def test_of_a_link_only_the_link_goes(tmp_path: Path) -> None:
    """The link's target is kept, and nothing hidden is left beside it."""
    folder, target, another = (tmp_path / name for name in ("folder", "link", "another"))
    folder.mkdir()
    fill(folder, "kept")
    writer = subprocess.Popen([sys.executable, "-c", ""])
    writer.wait()
    for link in (target, another, tmp_path / f".link.{atomic._host()}-{writer.pid}-ab.old"):
        link.symlink_to(folder)
    with atomic.whole_folder(target, replace=True) as draft:
        fill(draft)
    assert texts(target) == NEW and not target.is_symlink()
    atomic.remove_folder(another)
    atomic.clear_abandoned(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link"]
    assert texts(folder) == {"deep/a.txt": "kept", "b.txt": "kept"}


def test_the_draft_of_a_killed_process_goes_with_the_next_start(tmp_path: Path) -> None:
    target, foreign = tmp_path / "model", ".model.00000000-1-abcd.part"
    code = (
        "import sys, time; from pathlib import Path; from skillviz import atomic\n"
        "with atomic.whole_folder(Path(sys.argv[1]), replace=True) as draft:\n"
        "    (draft / 'half.txt').write_text('half'); print(draft, flush=True); time.sleep(60)"
    )

    def begun(path: Path) -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
        return process, Path(process.stdout.readline().strip())

    (killed, gone), (living, draft), (neighbour, others) = begun(target), begun(target), begun(tmp_path / "model.2")
    for process in (killed, neighbour):
        process.kill()
        process.communicate()
    (tmp_path / foreign).mkdir()  # from a process on another machine
    try:
        with atomic.whole_folder(target) as mine:
            fill(mine)
            assert [path.exists() for path in (gone, draft, others)] == [False, True, True]
        assert texts(target) == NEW
        assert {path.name for path in tmp_path.glob(".*")} == {draft.name, others.name, foreign}
    finally:
        living.kill()
        living.communicate()


def test_a_draft_whose_writer_s_number_another_process_has_is_abandoned(tmp_path: Path) -> None:
    with atomic.whole_folder(tmp_path / "model") as draft:
        assert not atomic._is_abandoned(draft)
        os.utime(draft, (5.0, 5.0))  # long before this process started
        assert atomic._is_abandoned(draft)
        fill(draft)


@pytest.mark.parametrize(
    ("name", "make", "is_there"), [("pipe", os.mkfifo, Path.is_fifo), ("folder", os.mkdir, Path.is_dir)]
)
def test_a_file_replaces_no_pipe_and_no_folder(
    name: str, make: Callable[[Path], None], is_there: Callable[[Path], bool], tmp_path: Path
) -> None:
    make(tmp_path / name)
    with pytest.raises(BadInput, match="cannot be replaced"):
        atomic.write_text(tmp_path / name, "text")
    assert is_there(tmp_path / name) and [path.name for path in tmp_path.iterdir()] == [name]


def test_files_have_the_rights_of_any_new_file(tmp_path: Path) -> None:
    """This includes files that a library makes readable only for their owner."""

    def private(path: Path) -> None:
        path.unlink(missing_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))

    before = os.umask(0o027)
    try:
        atomic.write_file(tmp_path / "one", private)
        with atomic.whole_folder(tmp_path / "many") as draft:
            private(draft / "two")
    finally:
        os.umask(before)
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("one", "many/two")} == {0o640}


def test_a_working_folder_goes_and_takes_those_of_killed_processes_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed = subprocess.run(
        [sys.executable, "-c", "from skillviz import atomic; import os, signal\n"
         "with atomic.working_folder() as f: (f / 'text').write_text('secret'); os.kill(os.getpid(), signal.SIGKILL)"],
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL and len(list(tmp_path.iterdir())) == 1
    with atomic.working_folder() as one, atomic.working_folder() as two:
        (one / "text").write_text("")
        assert {one, two} == set(tmp_path.iterdir()) and one.stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["file/out", "/proc/skillviz-out"])
def test_an_error_names_what_was_to_be_written_and_not_its_draft(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError) as caught, atomic.whole_folder(tmp_path / place):
        pass
    assert caught.value.filename == str(tmp_path / place)
