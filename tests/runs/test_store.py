"""Tests of stored runs: listing, opening, reading, verifying, deleting, mending (`runs doctor`), and refusals."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from skillviz import atomic
from skillviz.errors import BadInput, CorruptRun, OtherVersion, RunNotFound, StoreError
from skillviz.runs import doctor, tables
from skillviz.runs.doctor import QUARANTINE, findings, mended
from skillviz.runs.folder import WORK, RunFolder
from skillviz.runs.record import Failure
from skillviz.runs.run import CHECKSUM, RECORD, Run, read_record, with_checksum
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import PARTS, Library, Store, library, name_of, shipped_root, store_root
from tests.cli.calls import call
from tests.fake_run import fake_run
from tests.refused import refuses
from tests.runs.conftest import SMALL


def rewritten(run: Run, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path = run.path / RECORD
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


@pytest.fixture
def queued(store: Store, spec: RunSpec) -> RunFolder:
    return store.create(spec)


def test_a_root_that_does_not_exist_is_an_empty_store(store: Store) -> None:
    assert (store.list(), store.unfinished(), store.unreadable()) == ([], [], [])
    refuses(RunNotFound, "runs list", store.open, "x")


def test_ids_can_be_read_and_never_repeat(store: Store, spec: RunSpec) -> None:
    begun, ends = zip(*(store.create(spec, size=10_646).id.rsplit("-", 1) for _ in range(5)), strict=True)
    assert (set(begun), len(set(ends)), {len(end) for end in ends}) == ({"sst2-minilm-l6-stagewise-10646-s0"}, 5, {6})


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


def test_only_finished_runs_are_listed(store: Store, run: Run, queued: RunFolder, spec: RunSpec) -> None:
    failed, cancelled = store.create(spec), store.create(spec)
    for folder in (failed, cancelled):
        folder.start()
    failed.fail(Failure(kind="BadSize", message="m", hint="h"))
    cancelled.cancel()
    statuses = {run.id: "finished", queued.id: "queued", failed.id: "failed", cancelled.id: "cancelled"}
    assert [r.id for r in store.list()] == [run.id]
    assert store.unreadable() == []
    assert {entry.id: entry.record.status for entry in store.unfinished()} | {run.id: "finished"} == statuses
    assert {name: store.look(name[:-1]).record.status for name in statuses} == statuses


def test_broken_folders_are_never_listed_as_runs(store: Store, run: Run, made: Run) -> None:
    for name, text in {"half-record": b'{"layout": 1, "run', "list": b"[]", "empty": b"{}"}.items():
        write(store.root / name / RECORD, text)
    (store.root / "no-record").mkdir()
    write(store.root / "stray.txt")
    shutil.copytree(made.path, store.root / "copied-under-another-name")
    assert ([r.id for r in store.list()], store.unfinished(), {e.path.name for e in store.unreadable()}) == (
        [run.id],
        [],
        {"half-record", "list", "empty", "copied-under-another-name"},
    )


@pytest.mark.parametrize(
    ("damage", "error", "words"),
    [
        (lambda run: (run.path / "curve.parquet").unlink(), CorruptRun, "curve.parquet"),
        (lambda run: os.truncate(run.path / "curve.parquet", 100), CorruptRun, "curve.parquet"),
        (lambda run: rewritten(run, lambda record: record | {"status": "done"}), CorruptRun, "status"),
        (lambda run: rewritten(run, lambda record: record | {"surprise": 1, "metrics": 3}), CorruptRun, "metrics"),
        (lambda run: rewritten(run, lambda record: record | {"spec": {}}), CorruptRun, "spec"),
        (lambda run: rewritten(run, lambda record: record | {"metrics": 3}), CorruptRun, "metrics"),
        (
            lambda run: rewritten(run, lambda record: record | {"layout": 99, "spec": {"of": "the future"}}),
            OtherVersion, "made by another version of skillviz.*99",
        ),
    ],
    ids=["missing file", "short file", "status", "field", "spec", "metrics", "another version"],
)  # fmt: skip
def test_what_cannot_be_opened_is_not_listed_and_says_why_in_a_sentence(
    store: Store, run: Run, damage: Callable[[Run], object], error: type[Exception], words: str
) -> None:
    damage(run)
    (unreadable,), looked = store.unreadable(), store.look(run.id)
    assert store.list() == [] and looked.reason == unreadable.reason and re.search(words, unreadable.reason)
    refuses(error, rf"^[^\n]*{words}[^\n]*\Z", store.open, run.id)


def test_an_id_or_a_unique_beginning_opens_a_run(store: Store, run: Run, queued: RunFolder) -> None:
    assert store.open(run.id).id == store.open(run.id[:-3]).id == run.id
    for act, name, words in (
        (store.open, "sst2-", "beginning of 2 runs"), (store.open, queued.id, "queued"), (store.look, "nothing", None),
        *((store.open, nothing, None) for nothing in ("", "zzz", "..", "../" + run.id, str(run.path))),
    ):  # fmt: skip
        refuses(RunNotFound, words, act, name)


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_verify_finds_one_flipped_bit_in_any_file(store: Store, run: Run) -> None:
    for name in run.record.files:
        flip(run.path / name)
        (problem,) = store.verify(run.id)
        assert name in problem and "sha256" in problem
        flip(run.path / name)


@pytest.mark.parametrize(
    ("damages", "problems"),
    [
        ([lambda run: rewritten(run, lambda record: dict(reversed(record.items())))], []),
        ([lambda run: rewritten(run, lambda record: record | {
            "metrics": json.loads(json.dumps(record["metrics"]).replace('"value": 0.', '"value": 0.1', 1)),
        })], [f"{RECORD}.*sha256"]),
        ([lambda run: rewritten(run, lambda record: {k: record[k] for k in record if k != CHECKSUM})],
         [f"{RECORD}.*sha256"]),
        (
            [
                lambda run: (run.path / "curve.parquet").unlink(),
                lambda run: (run.path / "extra.bin").write_bytes(b"x"),
                lambda run: (run.path / "layers.parquet").write_bytes(b"x" * 10**6),
            ],
            ["curve.parquet is missing", "extra.bin is not", "layers.parquet has"],
        ),
    ],
    ids=["another order", "another number", "no checksum", "missing, added and longer files"],
)  # fmt: skip
def test_verify_finds_every_damage_and_nothing_else(
    store: Store, run: Run, damages: list[Callable[[Run], object]], problems: list[str]
) -> None:
    assert store.verify(run.id) == []
    for damage in damages:
        damage(run)
    assert re.fullmatch("\n".join(f".*{words}.*" for words in problems), "\n".join(sorted(store.verify(run.id))))


def test_delete_leaves_nothing_and_no_living_run_is_deleted(store: Store, run: Run, queued: RunFolder) -> None:
    store.set_note(run.id, "good")
    queued.start()
    refuses(StoreError, "cancel it", store.delete, queued.id)
    queued.cancel()
    for name in (run.id, queued.id):
        store.delete(name)
    assert [p for p in store.root.rglob("*") if p.is_file()] == []
    refuses(RunNotFound, None, store.delete, run.id)


def test_delete_refuses_everything_that_is_not_a_run_inside_the_root(
    store: Store, run: Run, made: Run, tmp_path: Path
) -> None:
    outside = shutil.copytree(made.path, tmp_path / "outside")
    hidden = shutil.copytree(made.path, store.root / ".hidden")
    (store.root / "plain").mkdir()
    (store.root / "link").symlink_to(outside)
    (store.root / RECORD).write_text("{}")
    for name in (
        "../outside", str(outside), "plain", "link", "", ".", "..", ".hidden", f"{run.id}/..", f"./{run.id}",
        f"{run.id}/", run.id[:-2],
    ):  # fmt: skip
        refuses(RunNotFound, "nothing was deleted", store.delete, name)
    assert (outside / RECORD).is_file()
    assert (store.root / "plain").is_dir()
    assert hidden.is_dir()
    assert store.open(run.id).id == run.id


@pytest.mark.slow
def test_a_run_whose_process_is_gone_counts_as_killed(store: Store, queued: RunFolder) -> None:
    code = "from skillviz.runs.folder import RunFolder; from pathlib import Path\n"
    code += f"RunFolder(Path({str(queued.path)!r})).start()"
    subprocess.run([sys.executable, "-c", code], check=True)
    (entry,) = store.unfinished()
    assert (entry.record.status, entry.record.error and entry.record.error.kind) == ("failed", "killed")
    store.delete(queued.id)


def test_notes_live_beside_the_run(store: Store, run: Run) -> None:
    notes = [store.note(run.id)]
    for note in ("the good one", " "):
        store.set_note(run.id, note)
        notes.append(store.note(run.id))
    assert (notes, store.verify(run.id)) == (["", "the good one", ""], [])
    refuses(RunNotFound, None, store.set_note, "../x", "y")


def test_the_root_is_the_argument_then_the_variable_then_local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKILLVIZ_RUNS", str(tmp_path / "env"))
    assert (store_root(tmp_path / "arg"), store_root()) == (tmp_path / "arg", tmp_path / "env")
    monkeypatch.delenv("SKILLVIZ_RUNS")
    assert store_root() == shipped_root() / "local"


def test_a_library_sees_several_stores(store: Store, run: Run, made: Run, queued: RunFolder) -> None:
    both = Library([store, Store(made.path.parent)])
    assert ([r.id for r in both.list()], both.open(made.id).path) == ([run.id, made.id], run.path), (
        "the user's own store takes precedence"
    )
    assert ([e.id for e in both.unfinished()], both.unreadable()) == ([queued.id], []) and both.store_of(
        queued.id
    ) is store
    for name, words in (("sst2", "beginning"), ("zzz", None)):
        refuses(RunNotFound, words, both.open, name)
    assert [s.root for s in library(store.root).stores] == [store.root.resolve(), shipped_root().resolve()]


def test_logits_come_in_the_order_of_the_labels_with_the_accuracy_in_run_json(made: Run) -> None:
    frame = made.predictions().set_index(["split", "state"])
    for (split, state), rows in frame.groupby(level=[0, 1]):
        ids, labels, logits = made.logits(state, split)
        assert list(ids) == [f"{split}-{n}" for n in range(len(rows))]
        assert logits.dtype == np.float32
        assert made.record.metrics[split].states[state]["accuracy"].value == pytest.approx(
            (logits.argmax(1) == labels).mean()
        )
        assert np.array_equal(labels, rows["label"])
        assert np.array_equal(logits, rows[["logit_negative", "logit_positive"]])
    assert (set(frame.index.get_level_values("state")), len(made.logits("nothing", "test")[0])) == (
        {"pretrained", "finetuned", "grafted", "complement"},
        0,
    )


def test_scores_as_a_table(made: Run) -> None:
    frame = made.scores()
    assert set(frame["split"]) == {"validation", "test"} and "finetuned_scaled" in set(frame["state"])
    (row,) = frame.query("split == 'test' and state == 'grafted' and metric == 'ece'").itertuples()
    assert row.low <= row.value <= row.high


def test_the_ranking_is_cut_to_smaller_regions(made: Run) -> None:
    assert (made.cut(0).size, made.cut(made.record.size)) == (0, made.region()) and made.cut(5).overlap(
        made.region()
    ) > 0
    refuses(BadInput, "ranking", made.cut, len(made.ranking()) + 1)


def test_what_does_not_apply_is_an_empty_table(run: Run) -> None:
    bare = Run(run.path, run.record.model_copy(update={"files": {}}))
    shapes = {name: getattr(bare, name)().shape for name in tables.TABLES.keys() - {"parts"}}  # stored beside the run
    assert (
        {name: shape for name, shape in shapes.items() if shape[0] or not shape[1]},
        list(bare.predictions().columns)[-2:],
        len(bare.ranking()),
    ) == ({}, ["logit_negative", "logit_positive"], 0)


@pytest.mark.parametrize("name", ["predictions.parquet", "curve.parquet", "region.safetensors", "ranking.safetensors"])
def test_a_cut_file_is_one_sentence(run: Run, name: str) -> None:
    (run.path / name).write_bytes((run.path / name).read_bytes()[:40])
    refuses(CorruptRun, name, getattr(run, name.split(".")[0]))


def test_tables_are_those_of_its_own_task_unless_another_is_named(store: Store) -> None:
    run = fake_run(store, others=("imdb", "yelp"), **SMALL)
    assert run.datasets == ("sst2", "imdb", "yelp")
    assert run.predictions("yelp")["split"].tolist() == ["test"] * 4 * 40
    assert set(run.predictions()["dataset"]) == set(run.curve()["dataset"]) == {"sst2"}
    assert run.predictions("nowhere").empty
    found = run.logits("grafted", "test", "imdb")
    assert [len(part) for part in found] == [40] * 3 and not np.array_equal(found[2], run.logits("grafted")[2])


def test_logits_of_other_labels_are_refused(run: Run) -> None:
    refuses(
        CorruptRun,
        "logit_a",
        Run(
            run.path, run.record.model_copy(update={"task": run.record.task.model_copy(update={"labels": ("a", "b")})})
        ).predictions,
    )


def test_run_json_has_no_nan_and_reads_back_the_same(made: Run) -> None:
    json.loads((made.path / "run.json").read_text(), parse_constant=lambda name: pytest.fail(f"{name} in run.json"))
    assert read_record(made.path) == made.record


@pytest.mark.nightly
def test_reading_runs_does_not_import_torch(made: Run) -> None:
    code = (
        "import sys\n"
        "from skillviz.runs.store import library\n"
        "from skillviz.analysis import run_tables\n"
        "from skillviz.runs import metrics, tables\n"
        f"run = library({str(made.path.parent)!r}).open({made.id!r})\n"
        "run.predictions(), run.region(), run.ranking(), run.layers(), run.headline()\n"
        "heavy = {'torch', 'transformers', 'datasets', 'streamlit'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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


@pytest.fixture
def killed(store: Store, spec: RunSpec) -> RunFolder:
    folder = store.create(spec)
    folder.fail(Failure(kind="killed", message="It was killed.", hint="h"))
    return folder


def test_a_store_in_order_is_left_alone(store: Store, run: Run) -> None:
    before = files(store.root)
    assert (cures(store), cures(Store(store.root / "nothing"))) == ([], []) and files(store.root) == before


def test_leftovers_of_killed_processes_go(store: Store, run: Run, killed: RunFolder) -> None:
    places = [store.root / hidden_name("run"), run.path / hidden_name("curve.parquet"), killed.work / hidden_name("x")]
    for place in places:
        write(place / "half")
    assert (sorted(cures(store)), [place for place in places if place.exists()], [r.id for r in store.list()]) == (
        ["cleaned"] * 3 + ["left"],
        [],
        [run.id],
    )


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
    assert finding.cure == "quarantined"
    assert store.folders() == []
    assert (store.root / QUARANTINE / run.id / "curve.parquet").read_bytes() == changed
    assert "curve.parquet was changed" in finding.problem
    assert run.spec.command() in finding.problem


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
    assert cures(store) == [cure]
    assert cures(store) == []
    assert [one.id for one in store.list()] == [run.id]
    assert store.verify(run.id) == []


@pytest.mark.parametrize("run_id", ["../out", ".hidden", "x" * 5000, "a/b", "\0", ""])
def test_a_run_whose_id_is_no_name_is_set_aside(store: Store, run: Run, run_id: str) -> None:
    rewritten(run, lambda record: record | {"run_id": run_id})
    assert cures(store) == ["quarantined"] and (store.root / QUARANTINE / run.id).is_dir()


def test_a_run_of_another_version_and_a_failed_one_are_left(store: Store, run: Run, killed: RunFolder) -> None:
    rewritten(run, lambda record: record | {"layout": 99})
    before = files(store.root)
    assert (set(cures(store)), files(store.root)) == ({"left"}, before) and f"jobs resume {killed.id}" in " ".join(
        finding.problem for finding in findings(store)
    )


def test_the_command_says_what_it_would_do_and_does_it(store: Store, run: Run) -> None:
    (run.path / "curve.parquet").unlink()
    said = call("runs", "doctor", "--runs-dir", store.root, "--dry-run")
    assert said.code == 0 and "to be quarantined" in said.out and run.path.is_dir()
    assert (
        call("runs", "doctor", "--runs-dir", store.root, "--json").json["findings"][0]["cure"] == "quarantined"
        and not run.path.exists()
        and "Nothing is wrong" in call("runs", "doctor", "--runs-dir", store.root).out
    )


def test_what_cannot_be_mended_is_left_with_the_reason(store: Store, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = write(run.path / "notes.txt")
    monkeypatch.setattr(doctor.os, "rename", Mock(side_effect=PermissionError(13, "Permission denied")))
    (finding,) = mended(store)
    assert (finding.cure, notes.read_bytes()) == (
        "left",
        b"mine",
    ) and "not be quarantined (Permission denied)" in finding.problem


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
    assert (files(outside), link.is_symlink()) == ({".ssh/id": b"mine", "thesis.txt": b"mine"}, bool(refusal)) and (
        not refusal or (run.path / "notes.txt").exists()
    )


def test_a_link_in_place_of_a_run_is_no_run(run: Run, tmp_path: Path) -> None:
    notes, other = write(run.path / "notes.txt"), Store(tmp_path / "other")
    other.root.mkdir()
    (other.root / run.id).symlink_to(run.path)
    assert cures(other) == [] and notes.exists()
