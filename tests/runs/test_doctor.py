"""Tests of `runs doctor`: leftovers are deleted, untrusted files are set aside, and nothing else changes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skillviz import atomic
from skillviz.errors import StoreError
from skillviz.runs import doctor
from skillviz.runs.doctor import QUARANTINE, findings, mended
from skillviz.runs.folder import WORK, RunFolder
from skillviz.runs.record import Failure
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import PARTS, Store
from tests.cli.calls import call


def hidden_name(name: str, ending: str = atomic.TEMPORARY) -> str:
    """Return the name of a draft whose process has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return f".{name}.{atomic._host()}-{process.pid}-abcd1234{ending}"


def cures(store: Store) -> list[str]:
    return [finding.cure for finding in mended(store)]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_store_in_order_is_left_alone(store: Store, run: Run) -> None:
    before = files(store.root)
    assert cures(store) == [] and files(store.root) == before
    assert cures(Store(store.root / "nothing")) == []


def test_leftovers_of_killed_processes_go(store: Store, run: Run, spec: RunSpec) -> None:
    folder = store.create(spec)
    folder.fail(Failure(kind="killed", message="m.", hint="h"))
    places = [store.root / hidden_name("run"), run.path / hidden_name("curve.parquet"), folder.work / hidden_name("x")]
    for place in places:
        place.mkdir()
        (place / "half").write_bytes(b"half")
    assert sorted(cures(store)) == ["cleaned"] * 3 + ["left"]
    assert not any(place.exists() for place in places) and [r.id for r in store.list()] == [run.id]


def test_a_draft_of_a_living_process_stays(store: Store, run: Run) -> None:
    with atomic.whole_folder(store.root / "next") as draft:
        assert cures(store) == [] and draft.is_dir()


def test_what_was_put_aside_for_a_draft_that_never_came_is_put_back(tmp_path: Path) -> None:
    old = tmp_path / hidden_name("model", atomic.REPLACED)
    old.mkdir()
    (old / "weights").write_text("old")
    atomic.clear_abandoned(tmp_path)
    assert (tmp_path / "model" / "weights").read_text() == "old" and not old.exists()
    old.mkdir()
    atomic.clear_abandoned(tmp_path)
    assert (tmp_path / "model" / "weights").read_text() == "old" and not old.exists()


def test_a_run_that_differs_is_set_aside_and_said_how_to_make_again(store: Store, run: Run) -> None:
    table = run.path / "curve.parquet"
    content = bytearray(table.read_bytes())
    content[-20] ^= 1
    table.write_bytes(content)
    (finding,) = mended(store)
    assert finding.cure == "quarantined" and "curve.parquet was changed" in finding.problem
    assert run.spec.command() in finding.problem
    assert store.folders() == [] and (store.root / QUARANTINE / run.id / "curve.parquet").read_bytes() == content


def test_a_file_of_nobody_is_set_aside_and_the_run_stays(store: Store, run: Run) -> None:
    (run.path / "notes.txt").write_text("mine")
    assert cures(store) == ["quarantined"] and store.verify(run.id) == []
    assert (store.root / QUARANTINE / run.id / "notes.txt").read_text() == "mine"
    (run.path / "notes.txt").write_text("again")
    assert cures(store) == ["quarantined"] and len(list((store.root / QUARANTINE / run.id).iterdir())) == 2


def test_a_renamed_run_gets_its_name_back(store: Store, run: Run) -> None:
    run.path.rename(store.root / "my best run")
    assert cures(store) == ["repaired"] and [r.id for r in store.list()] == [run.id]


@pytest.mark.parametrize("run_id", ["../out", ".hidden", "x" * 5000, "a/b", "\0", ""])
def test_a_run_whose_id_is_no_name_is_set_aside(store: Store, run: Run, run_id: str) -> None:
    record = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**record, "run_id": run_id}))
    assert cures(store) == ["quarantined"] and (store.root / QUARANTINE / run.id).is_dir()


def test_a_run_of_another_version_and_a_failed_one_are_left(store: Store, run: Run, spec: RunSpec) -> None:
    record = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**record, "layout": 99}))
    failed = store.create(spec)
    failed.fail(Failure(kind="killed", message="It was killed.", hint="h"))
    before = files(store.root)
    problems = {finding.cure: finding.problem for finding in mended(store)}
    assert set(problems) == {"left"} and files(store.root) == before
    assert f"jobs resume {failed.id}" in " ".join(finding.problem for finding in findings(store))


def test_work_of_a_finished_run_is_cleared(store: Store, run: Run) -> None:
    (run.path / "work").mkdir(exist_ok=True)
    (run.path / "work" / "checkpoint.safetensors").write_bytes(b"old")
    assert cures(store) == ["cleaned"] and cures(store) == [] and store.verify(run.id) == []


def test_the_command_says_what_it_would_do_and_does_it(store: Store, run: Run) -> None:
    (run.path / "curve.parquet").unlink()
    said = call("runs", "doctor", "--runs-dir", store.root, "--dry-run")
    assert said.code == 0 and "to be quarantined" in said.out and run.path.is_dir()
    done = call("runs", "doctor", "--runs-dir", store.root, "--json")
    assert done.json["findings"][0]["cure"] == "quarantined" and not run.path.exists()
    assert "Nothing is wrong" in call("runs", "doctor", "--runs-dir", store.root).out


def test_what_cannot_be_mended_is_left_with_the_reason(store: Store, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    (run.path / "notes.txt").write_text("mine")
    monkeypatch.setattr(doctor.os, "rename", refused)
    (finding,) = mended(store)
    assert finding.cure == "left" and "not be quarantined (Permission denied)" in finding.problem
    assert (run.path / "notes.txt").read_text() == "mine"


def test_nothing_behind_a_link_is_touched(store: Store, run: Run, spec: RunSpec, tmp_path: Path) -> None:
    """A copied store may contain links: a work folder, run, quarantine or folder of part scores."""
    outside = tmp_path / "outside"
    (outside / ".ssh").mkdir(parents=True)
    (outside / ".ssh" / "id").write_text("key")
    (outside / "thesis.txt").write_text("precious")
    before = files(outside)
    shutil.rmtree(run.path / WORK, ignore_errors=True)
    (run.path / WORK).symlink_to(outside)
    assert cures(store) == ["cleaned"] and not (run.path / WORK).is_symlink() and files(outside) == before

    stopped = store.create(spec)
    stopped.fail(Failure(kind="killed", message="m.", hint="h"))
    shutil.rmtree(stopped.work)
    stopped.work.symlink_to(outside)
    with pytest.raises(StoreError, match="is a link"):
        RunFolder(stopped.path).reopen()
    stopped.work.unlink()
    (stopped.path / ".hidden").symlink_to(outside)
    RunFolder(stopped.path).reopen()
    assert files(outside) == before and not (stopped.path / ".hidden").is_symlink()

    other = Store(tmp_path / "other")
    other.root.mkdir()
    (run.path / "mine.txt").write_text("my own")
    (other.root / run.id).symlink_to(run.path)
    assert cures(other) == [] and (run.path / "mine.txt").exists()

    (store.root / QUARANTINE).symlink_to(outside)
    with pytest.raises(StoreError, match="is or holds a link"):
        mended(store)
    assert files(outside) == before and (run.path / "mine.txt").exists()
    (store.root / PARTS).mkdir()
    (store.root / PARTS / run.id).symlink_to(outside)
    store.delete(run.id)
    assert files(outside) == before and not list((store.root / PARTS).iterdir())
