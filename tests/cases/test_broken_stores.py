"""Tests of files, folders and names that the system refuses: lists still load and show them with the reason."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.errors import CorruptRun, NotReadable, RunNotFound
from skillviz.models.local_models import find_models
from skillviz.runs import packed
from skillviz.runs.doctor import findings, mended
from skillviz.runs.run import RECORD, Run, with_checksum
from skillviz.runs.store import NOTES, Library, Store
from skillviz.studies.store import FOLDER, studies_in, unreadable_studies
from skillviz.tasks.uploaded import saved
from skillviz.ui import cache
from skillviz.ui.page_table import PAGES
from tests.cli.calls import call
from tests.runs.conftest import made
from tests.studies.fake_study import fake_study

__all__ = ["made"]

BAD = os.fsdecode(b"bad-\xff")
Refuse = Callable[[Path, int], None]


@pytest.fixture
def store(made: Run, tmp_path: Path) -> Store:
    """Return a store of three complete runs; the tests damage the second."""
    store = Store(tmp_path / "runs")
    for letter in "abc":
        name = f"{made.id}-{letter}"
        shutil.copytree(made.path, store.root / name)
        content = json.loads((store.root / name / RECORD).read_text())
        (store.root / name / RECORD).write_text(json.dumps(with_checksum(content | {"run_id": name})))
    return store


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Make the system raise an error for each access to a path or to anything below it."""
    refused: dict[Path, int] = {}

    def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            if isinstance(path, str | bytes | os.PathLike):
                here = Path(os.fsdecode(path))
                for place, code in refused.items():
                    if here == place or place in here.parents:
                        raise OSError(code, os.strerror(code), str(here))
            return real(path, *args, **kwargs)

        return call

    for name in ("stat", "open", "listdir", "scandir", "lstat"):
        monkeypatch.setattr(os, name, guarded(getattr(os, name)))
    for name in ("open", "io.open"):
        module = "builtins" if name == "open" else "io"
        monkeypatch.setattr(f"{module}.open", guarded(open))
    return refused.__setitem__


def ids(store: Store) -> list[str]:
    return sorted(run.id[-1] for run in store.list())


@pytest.mark.cases(4, 2)
@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ESTALE])
@pytest.mark.parametrize("part", ["", RECORD, "curve.parquet"])
def test_a_run_that_may_not_be_read_is_listed_and_left(store: Store, refuse: Refuse, part: str, code: int) -> None:
    broken = store.list()[1].path
    refuse(broken / part, code)
    assert ids(store) == sorted({"a", "b", "c"} - {broken.name[-1]})
    (entry,) = store.unreadable()
    assert entry.path == broken and isinstance(entry.error, NotReadable) and os.strerror(code) in entry.reason
    with pytest.raises(NotReadable, match=os.strerror(code)):
        store.open(broken.name)
    (finding,) = findings(store)
    assert finding.cure == "left" and os.strerror(code) in finding.problem
    mended(store)
    assert broken.name in os.listdir(store.root), "nothing is moved that nobody could look at"


@pytest.mark.nightly
def test_a_file_that_breaks_while_it_is_read_ends_neither_verify_nor_doctor(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = store.list()[1]
    real = packed.sha256

    def failing(path: Path) -> str:
        if path == broken.path / "curve.parquet":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return real(path)

    monkeypatch.setattr(packed, "sha256", failing)
    assert [len(store.verify(run.id)) for run in store.list()] == [0, 1, 0]
    said = call("runs", "verify", "--runs-dir", store.root)
    assert said.code == 2 and said.out.count("unchanged") >= 2
    assert f"{broken.id}: curve.parquet cannot be read (Input/output error)" in said.out
    assert [(finding.path, finding.cure) for finding in mended(store)] == [(broken.path, "left")]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO])
def test_a_store_that_may_not_be_listed_is_itself_what_cannot_be_read(
    store: Store, made: Run, refuse: Refuse, code: int
) -> None:
    other = Store(made.path.parent)
    refuse(store.root, code)
    both = Library([store, other])
    assert store.list() == [] and [run.id for run in both.list()] == [made.id]
    (entry,) = both.unreadable()
    assert entry.path == store.root and os.strerror(code) in entry.reason
    assert both.open(made.id).id == made.id, "it is in the other store"
    with pytest.raises(NotReadable, match="cannot be read"):
        both.open("nothing-like-it")
    assert [(finding.path, finding.cure) for finding in findings(store)] == [(store.root, "left")]


@pytest.mark.nightly
def test_a_folder_name_that_is_not_utf_8_is_listed_as_it_can_be_printed(store: Store) -> None:
    shutil.copytree(store.list()[0].path, store.root / BAD)
    assert ids(store) == ["a", "b", "c"]
    (entry,) = store.unreadable()
    assert isinstance(entry.error, CorruptRun)
    for words in (entry.name, entry.reason):
        assert "bad-\\udcff" in words and words.encode("utf-8")
    for command in ("list", "verify"):
        said = call("runs", command, "--runs-dir", store.root)
        assert "bad-\\udcff" in said.out + said.err and store.list()[0].id in said.out
    call("runs", "doctor", "--runs-dir", store.root)
    assert store.unreadable() == [] and ids(store) == ["a", "b", "c"]


@pytest.mark.parametrize("instead", ["nothing", "a folder", "a pipe"])
def test_a_run_without_its_record_is_named_by_doctor(store: Store, instead: str) -> None:
    run = store.list()[0]
    lost = store.root / "lost"
    shutil.copytree(run.path, lost)
    (lost / RECORD).unlink()
    if instead != "nothing":
        (os.mkdir if instead == "a folder" else os.mkfifo)(lost / RECORD)
    (found,) = [one for one in findings(store) if one.path == lost]
    assert found.cure == "left" and RECORD in found.problem
    assert mended(store) and lost.is_dir() and [one.path for one in store.list()].count(run.path) == 1


def test_a_note_that_is_not_utf_8_is_said_and_kept(store: Store) -> None:
    run = store.list()[0]
    place = store.root / NOTES / f"{run.id}.txt"
    place.parent.mkdir()
    place.write_bytes(b"caf\xe9")
    with pytest.raises(NotReadable, match="not UTF-8"):
        store.note(run.id)
    (finding,) = mended(store)
    assert (finding.path, finding.cure) == (place, "left") and place.read_bytes() == b"caf\xe9"
    assert call("runs", "list", "--runs-dir", store.root).code == 0


@pytest.fixture
def own(store: Store, monkeypatch: pytest.MonkeyPatch, user_runs: Path, tmp_path: Path) -> Store:
    """Return the store as the user's own, without shipped runs."""
    monkeypatch.setenv("SKILLVIZ_RUNS", str(store.root))
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "nothing")
    return store


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("page", ["runs", "jobs", "overview", "home"])
def test_pages_go_on(own: Store, page: str) -> None:
    first = own.list()[0]
    shutil.copytree(first.path, own.root / BAD)
    for run in own.list():
        place = own.root / NOTES / f"{run.id}.txt"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(b"caf\xe9")
    test = AppTest.from_file(str(PAGES[page].path), default_timeout=60)
    test.query_params["run"] = first.id
    assert not test.run().exception and not test.error
    assert len(cache.entries()) == 3
    if page == "runs":
        assert any("bad-\\udcff" in words.value for words in test.markdown)


def test_a_page_over_a_store_that_may_not_be_listed_says_so(own: Store, refuse: Refuse) -> None:
    refuse(own.root, errno.EACCES)
    test = AppTest.from_file(str(PAGES["runs"].path), default_timeout=60).run()
    assert not test.exception
    assert any("Permission denied" in words.value for words in test.markdown)


def test_studies_that_cannot_be_read_are_named(own: Store, refuse: Refuse) -> None:
    store = own
    whole, broken = fake_study(store.root, "table1"), fake_study(store.root, "figure5")
    refuse(broken / "study.json", errno.EIO)
    assert [study.path for study in studies_in(store)] == [whole]
    (entry,) = unreadable_studies(store)
    assert entry.path == broken and "Input/output error" in entry.reason
    said = call("runs", "doctor", "--dry-run", "--runs-dir", store.root)
    assert "figure5" in said.out and "Input/output error" in said.out
    test = AppTest.from_file(str(PAGES["studies"].path), default_timeout=60).run()
    assert not test.exception and any("Input/output error" in each.value for each in test.warning)
    refuse(store.root / FOLDER, errno.EACCES)
    assert studies_in(store) == []
    assert [entry.path for entry in unreadable_studies(store)] == [store.root / FOLDER]


def test_folders_of_models_and_tasks_that_cannot_be_read_are_passed_over(tmp_path: Path, refuse: Refuse) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "task.yaml").write_text("name: x")
        (tmp_path / name / "model.safetensors").write_text("")
    (tmp_path / BAD).mkdir()
    refuse(tmp_path / "a", errno.EIO)
    assert find_models([tmp_path]).models == ()
    assert saved(tmp_path) == [tmp_path / "b" / "task.yaml"]


def test_no_such_run_stays_its_own_error(store: Store) -> None:
    with pytest.raises(RunNotFound):
        store.open("nothing-like-it")
