"""Tests of `runs doctor`: leftovers are deleted, untrusted files are set aside, and nothing else changes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

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


def write(path: Path, content: bytes = b"mine") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def edit_record(run: Run, **changes: object) -> None:
    write(run.path / "run.json", json.dumps({**json.loads((run.path / "run.json").read_text()), **changes}).encode())


@pytest.fixture
def killed(store: Store, spec: RunSpec) -> RunFolder:
    folder = store.create(spec)
    folder.fail(Failure(kind="killed", message="It was killed.", hint="h"))
    return folder


def test_a_store_in_order_is_left_alone(store: Store, run: Run) -> None:
    before = files(store.root)
    assert (cures(store), cures(Store(store.root / "nothing"))) == ([], [])
    assert files(store.root) == before


def test_leftovers_of_killed_processes_go(store: Store, run: Run, killed: RunFolder) -> None:
    places = [store.root / hidden_name("run"), run.path / hidden_name("curve.parquet"), killed.work / hidden_name("x")]
    for place in places:
        write(place / "half")
    assert sorted(cures(store)) == ["cleaned"] * 3 + ["left"]
    assert [place for place in places if place.exists()] == [] and [r.id for r in store.list()] == [run.id]


def test_a_draft_of_a_living_process_stays(store: Store, run: Run) -> None:
    with atomic.whole_folder(store.root / "next") as draft:
        assert cures(store) == [] and draft.is_dir()


def test_what_was_put_aside_for_a_draft_that_never_came_is_put_back(tmp_path: Path) -> None:
    old = tmp_path / hidden_name("model", atomic.REPLACED)
    write(old / "weights")
    for _ in range(2):
        atomic.clear_abandoned(tmp_path)
        assert files(tmp_path) == {"model/weights": b"mine"} and not old.exists()
        old.mkdir()


def test_a_run_that_differs_is_set_aside_and_said_how_to_make_again(store: Store, run: Run) -> None:
    table = (run.path / "curve.parquet").read_bytes()
    changed = write(run.path / "curve.parquet", table[:-20] + bytes([table[-20] ^ 1]) + table[-19:]).read_bytes()
    (finding,) = mended(store)
    assert finding.cure == "quarantined" and "curve.parquet was changed" in finding.problem
    assert run.spec.command() in finding.problem
    assert store.folders() == [] and (store.root / QUARANTINE / run.id / "curve.parquet").read_bytes() == changed


def test_files_of_nobody_are_set_aside_beside_each_other(store: Store, run: Run) -> None:
    for content in (b"mine", b"again"):
        write(run.path / "notes.txt", content)
        mended(store)
    aside = files(store.root / QUARANTINE / run.id)
    assert sorted(aside.values()) == [b"again", b"mine"] and aside["notes.txt"] == b"mine"


@pytest.mark.parametrize(
    ("damage", "cure"),
    [
        (lambda run: run.path.rename(run.root / "my best run"), "repaired"),
        (lambda run: write(run.path / WORK / "checkpoint.safetensors"), "cleaned"),
        (lambda run: write(run.path / "notes.txt"), "quarantined"),
    ],
    ids=["another name", "work", "a file of nobody"],
)
def test_a_run_is_mended_once_and_listed_again(
    store: Store, run: Run, damage: Callable[[Run], object], cure: str
) -> None:
    damage(run)
    assert (cures(store), cures(store)) == ([cure], [])
    assert [one.id for one in store.list()] == [run.id] and store.verify(run.id) == []


@pytest.mark.parametrize("run_id", ["../out", ".hidden", "x" * 5000, "a/b", "\0", ""])
def test_a_run_whose_id_is_no_name_is_set_aside(store: Store, run: Run, run_id: str) -> None:
    edit_record(run, run_id=run_id)
    assert cures(store) == ["quarantined"] and (store.root / QUARANTINE / run.id).is_dir()


def test_a_run_of_another_version_and_a_failed_one_are_left(store: Store, run: Run, killed: RunFolder) -> None:
    edit_record(run, layout=99)
    before = files(store.root)
    assert (set(cures(store)), files(store.root)) == ({"left"}, before)
    assert f"jobs resume {killed.id}" in " ".join(finding.problem for finding in findings(store))


def test_the_command_says_what_it_would_do_and_does_it(store: Store, run: Run) -> None:
    (run.path / "curve.parquet").unlink()
    said = call("runs", "doctor", "--runs-dir", store.root, "--dry-run")
    assert said.code == 0 and "to be quarantined" in said.out and run.path.is_dir()
    done = call("runs", "doctor", "--runs-dir", store.root, "--json")
    assert done.json["findings"][0]["cure"] == "quarantined" and not run.path.exists()
    assert "Nothing is wrong" in call("runs", "doctor", "--runs-dir", store.root).out


def test_what_cannot_be_mended_is_left_with_the_reason(store: Store, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = write(run.path / "notes.txt")
    monkeypatch.setattr(doctor.os, "rename", Mock(side_effect=PermissionError(13, "Permission denied")))
    (finding,) = mended(store)
    assert finding.cure == "left" and "not be quarantined (Permission denied)" in finding.problem
    assert notes.read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("place", "act", "refusal"),
    [
        ("{run}/work", lambda store, run, killed: mended(store), None),
        ("{killed}/work", lambda store, run, killed: RunFolder(killed.path).reopen(), "is a link"),
        ("{killed}/.hidden", lambda store, run, killed: RunFolder(killed.path).reopen(), None),
        (QUARANTINE, lambda store, run, killed: mended(store), "is or holds a link"),
        (f"{PARTS}/{{run}}", lambda store, run, killed: store.delete(run.id), None),
    ],
    ids=["work", "work of a killed run", "leftover", "quarantine", "scores of parts"],
)
def test_nothing_behind_a_link_is_touched(
    store: Store, run: Run, killed: RunFolder, tmp_path: Path,
    place: str, act: Callable[[Store, Run, RunFolder], object], refusal: str | None,
) -> None:  # fmt: skip
    """A copied store may contain links; a link goes or is refused, and what it leads to stays."""
    outside, link = tmp_path / "outside", store.root / place.format(run=run.id, killed=killed.id)
    for path in (outside / ".ssh" / "id", outside / "thesis.txt", run.path / "notes.txt", link / "x"):
        write(path)
    shutil.rmtree(link)
    link.symlink_to(outside)
    with pytest.raises(StoreError, match=refusal) if refusal else nullcontext():
        act(store, run, killed)
    assert files(outside) == {".ssh/id": b"mine", "thesis.txt": b"mine"}
    assert link.is_symlink() == bool(refusal) and (not refusal or (run.path / "notes.txt").exists())


def test_a_link_in_place_of_a_run_is_no_run(run: Run, tmp_path: Path) -> None:
    notes, other = write(run.path / "notes.txt"), Store(tmp_path / "other")
    other.root.mkdir()
    (other.root / run.id).symlink_to(run.path)
    assert cures(other) == [] and notes.exists()
