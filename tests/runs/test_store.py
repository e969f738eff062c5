"""Tests of the store: listing, opening, verifying, deleting, and refusals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skillviz.errors import CorruptRun, OtherVersion, RunNotFound, StoreError
from skillviz.runs.record import Failure
from skillviz.runs.run import CHECKSUM, RECORD, Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Library, Store, library, name_of, shipped_root, store_root


def edit_record(run: Run, **changes: object) -> None:
    path = run.path / RECORD
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_root_that_does_not_exist_is_an_empty_store(store: Store) -> None:
    assert (store.list(), store.unfinished(), store.unreadable()) == ([], [], [])
    with pytest.raises(RunNotFound, match="runs list"):
        store.open("x")


def test_ids_can_be_read_and_never_repeat(store: Store, spec: RunSpec) -> None:
    ids = {store.create(spec, size=10_646).id for _ in range(5)}
    assert len(ids) == 5
    assert all(i.startswith("sst2-minilm-l6-stagewise-10646-s0-") for i in ids)
    assert all(len(i.rsplit("-", 1)[1]) == 6 for i in ids)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"task": "/data/My Reviews.yaml", "base": "../models/x/"}, "my-reviews-x-stagewise-0.1pct-s0"),
        ({"base": "C:\\models\\Größe", "seed": 12}, "sst2-gr-e-stagewise-0.1pct-s12"),
        ({"base": "..", "task": "../.."}, "stagewise-0.1pct-s0"),
        ({"sizes": ("1e-5",), "base": "a/" + "b" * 99}, f"sst2-{'b' * 40}-stagewise-1e-5-s0"),
    ],
)
def test_names_are_safe_whatever_the_spec_holds(spec: RunSpec, changes: dict[str, object], name: str) -> None:
    assert name_of(spec.model_copy(update=changes)) == name


def test_only_finished_runs_are_listed(store: Store, run: Run, spec: RunSpec) -> None:
    queued = store.create(spec)
    failed, cancelled = store.create(spec), store.create(spec)
    failed.start()
    failed.fail(Failure(kind="BadSize", message="m", hint="h"))
    cancelled.start()
    cancelled.cancel()
    assert [r.id for r in store.list()] == [run.id]
    found = {entry.id: entry.record.status for entry in store.unfinished()}
    assert found == {queued.id: "queued", failed.id: "failed", cancelled.id: "cancelled"}
    assert store.unreadable() == []


def test_broken_folders_are_never_listed_as_runs(store: Store, run: Run, made: Run) -> None:
    cases = {"no-record": None, "half-record": '{"layout": 1, "run', "list": "[]", "empty": "{}"}
    for name, text in cases.items():
        (store.root / name).mkdir()
        if text is not None:
            (store.root / name / RECORD).write_text(text)
    (store.root / "stray.txt").write_text("x")
    shutil.copytree(made.path, store.root / "copied-under-another-name")
    assert [r.id for r in store.list()] == [run.id]
    assert store.unfinished() == []
    assert {e.path.name for e in store.unreadable()} == {
        "half-record", "list", "empty", "copied-under-another-name",
    }  # fmt: skip


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_a_finished_run_that_lost_a_file_is_not_listed(store: Store, run: Run, damage: str) -> None:
    path = run.path / "curve.parquet"
    path.unlink() if damage == "missing" else path.write_bytes(path.read_bytes()[:-1])
    assert store.list() == []
    assert "curve.parquet" in store.unreadable()[0].reason
    with pytest.raises(CorruptRun, match="curve.parquet"):
        store.open(run.id)


def test_an_id_or_a_unique_beginning_opens_a_run(store: Store, run: Run, spec: RunSpec) -> None:
    assert store.open(run.id).id == run.id
    assert store.open(run.id[:-3]).id == run.id
    other = store.create(spec)
    with pytest.raises(RunNotFound, match="beginning of 2 runs"):
        store.open("sst2-")
    with pytest.raises(RunNotFound, match="queued"):
        store.open(other.id)
    for nothing in ("", "zzz", "..", "../" + run.id, str(run.path)):
        with pytest.raises(RunNotFound):
            store.open(nothing)


def test_a_look_tells_what_a_run_is_whatever_it_is(store: Store, run: Run, spec: RunSpec) -> None:
    assert store.look(run.id[:-1]).record.status == "finished"
    folder = store.create(spec)
    assert store.look(folder.id).record.status == "queued"
    folder.cancel()
    assert store.look(folder.id).record.status == "cancelled"
    edit_record(run, layout=99)
    assert "99" in store.look(run.id).reason
    with pytest.raises(RunNotFound):
        store.look("nothing")


def test_verify_is_silent_on_a_good_run(store: Store, run: Run) -> None:
    assert store.verify(run.id) == []


def test_verify_finds_one_flipped_bit_in_any_file(store: Store, run: Run) -> None:
    for name in run.record.files:
        content = bytearray((run.path / name).read_bytes())
        content[len(content) // 2] ^= 1
        (run.path / name).write_bytes(content)
        problems = store.verify(run.id)
        assert len(problems) == 1
        assert name in problems[0] and "sha256" in problems[0]
        content[len(content) // 2] ^= 1
        (run.path / name).write_bytes(content)
    assert store.verify(run.id) == []


def test_verify_finds_a_changed_number_in_run_json_however_it_is_laid_out(store: Store, run: Run) -> None:
    content = json.loads((run.path / RECORD).read_text())
    (run.path / RECORD).write_text(json.dumps(dict(reversed(content.items()))))
    assert store.verify(run.id) == []
    content["metrics"]["test"]["states"]["grafted"]["accuracy"]["value"] += 0.01
    (run.path / RECORD).write_text(json.dumps(content))
    assert [RECORD in problem and "sha256" in problem for problem in store.verify(run.id)] == [True]
    del content[CHECKSUM]
    (run.path / RECORD).write_text(json.dumps(content))
    assert [RECORD in problem and "sha256" in problem for problem in store.verify(run.id)] == [True]


def test_verify_finds_missing_longer_and_added_files(store: Store, run: Run) -> None:
    (run.path / "curve.parquet").unlink()
    with (run.path / "layers.parquet").open("ab") as file:
        file.write(b"x")
    (run.path / "extra.bin").write_bytes(b"x")
    found = " ".join(store.verify(run.id))
    assert len(store.verify(run.id)) == 3
    assert all(name in found for name in ("curve.parquet is missing", "layers.parquet has", "extra.bin is not"))


def test_delete_leaves_nothing(store: Store, run: Run, spec: RunSpec) -> None:
    store.set_note(run.id, "good")
    unfinished = store.create(spec)
    store.delete(run.id)
    store.delete(unfinished.id)
    assert [p for p in store.root.rglob("*") if p.is_file()] == []
    with pytest.raises(RunNotFound):
        store.delete(run.id)


def test_delete_refuses_everything_that_is_not_a_run_inside_the_root(
    store: Store, run: Run, made: Run, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    shutil.copytree(made.path, outside)
    plain = store.root / "plain"
    plain.mkdir()
    (store.root / "link").symlink_to(outside)
    (store.root / RECORD).write_text("{}")
    hidden = store.root / ".hidden"
    shutil.copytree(made.path, hidden)
    wrong = ["../outside", str(outside), "plain", "link", "", ".", "..", ".hidden", f"{run.id}/..", f"./{run.id}"]
    for name in [*wrong, f"{run.id}/", run.id[:-2]]:
        with pytest.raises(RunNotFound, match="nothing was deleted"):
            store.delete(name)
    assert (outside / RECORD).is_file() and plain.is_dir() and hidden.is_dir()
    assert store.open(run.id).id == run.id


def test_a_living_run_is_not_deleted(store: Store, spec: RunSpec) -> None:
    folder = store.create(spec)
    folder.start()
    with pytest.raises(StoreError, match="cancel it"):
        store.delete(folder.id)
    folder.cancel()
    store.delete(folder.id)


@pytest.mark.slow
def test_a_run_whose_process_is_gone_counts_as_killed(store: Store, spec: RunSpec) -> None:
    folder = store.create(spec)
    code = "from skillviz.runs.folder import RunFolder; from pathlib import Path\n"
    code += f"RunFolder(Path({str(folder.path)!r})).start()"
    subprocess.run([sys.executable, "-c", code], check=True)
    entry = store.unfinished()[0]
    assert entry.record.status == "failed"
    assert entry.record.error is not None and entry.record.error.kind == "killed"
    store.delete(folder.id)


def test_another_version_says_so(store: Store, run: Run) -> None:
    edit_record(run, layout=99, spec={"of": "the future"})
    assert store.list() == []
    assert "made by another version of skillviz" in store.unreadable()[0].reason
    with pytest.raises(OtherVersion, match="99"):
        store.open(run.id)


def test_notes_live_beside_the_run(store: Store, run: Run) -> None:
    assert store.note(run.id) == ""
    store.set_note(run.id, "the good one")
    assert store.note(run.id) == "the good one"
    assert store.verify(run.id) == []
    store.set_note(run.id, " ")
    assert store.note(run.id) == ""
    with pytest.raises(RunNotFound):
        store.set_note("../x", "y")


def test_the_root_is_the_argument_then_the_variable_then_local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKILLVIZ_RUNS", str(tmp_path / "env"))
    assert store_root(tmp_path / "arg") == tmp_path / "arg"
    assert store_root() == tmp_path / "env"
    monkeypatch.delenv("SKILLVIZ_RUNS")
    assert store_root() == shipped_root() / "local"


def test_a_library_sees_several_stores(store: Store, run: Run, made: Run, spec: RunSpec) -> None:
    both = Library([store, Store(made.path.parent)])
    assert [r.id for r in both.list()] == [run.id, made.id]
    assert both.open(made.id).path == run.path  # the user's own store takes precedence
    folder = store.create(spec)
    assert [e.id for e in both.unfinished()] == [folder.id]
    assert both.store_of(folder.id) is store
    with pytest.raises(RunNotFound, match="beginning"):
        both.open("sst2")
    with pytest.raises(RunNotFound):
        both.open("zzz")
    assert both.unreadable() == []
    assert [s.root for s in library(store.root).stores] == [store.root.resolve(), shipped_root().resolve()]
