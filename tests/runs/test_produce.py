"""Tests of a run from two model folders to a finished record, and of each way it can stop earlier."""

from __future__ import annotations

import dataclasses
import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from skillviz import atomic
from skillviz.core.localizers import table as localizers
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.metrics import score
from skillviz.core.region import Region
from skillviz.errors import (
    BUG,
    OUT_OF_MEMORY,
    BadData,
    BadInput,
    BadLabelWord,
    BadSize,
    CorruptFile,
    DiskFull,
    ModelNotFound,
    NoDevice,
    PairMismatch,
    SkillvizError,
    UnknownLocalizer,
    UnknownTask,
    UnsafeWeights,
)
from skillviz.models.predict import predict
from skillviz.runs import produce as engine
from skillviz.runs import search
from skillviz.runs.folder import RunFolder
from skillviz.runs.held_out import AT_END, why_not
from skillviz.runs.process import PHASES, Progress
from skillviz.runs.produce import produce
from skillviz.runs.run import Run
from skillviz.runs.session import ENDS, Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from tests.runs.tiny_world import D, spec_of
from tests.tiers import first
from tests.tiny import tiny_pair, tiny_task


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("name", first(LOCALIZERS))
def test_every_localizer_makes_a_whole_run(world: Path, session: Session, store: Store, name: str) -> None:
    own = {"learned": {"lr": 1e4, "base_share": 0.01}, "expression": {"expression": {"layers": [1]}}}
    options = own.get(name, {})
    spec = spec_of(world, localizer=name, sizes=("5%", "1%", "20%"), steps=4, batch_size=16, options=options)
    run = produce(spec, store, session=session)
    assert store.verify(run.id) == []
    assert all(check.passed for check in run.record.checks), run.record.checks
    assert [check.name for check in run.record.checks] == ["size", "ranking", "ends", "restored"]
    if LOCALIZERS[name].budgeted:
        assert run.record.sizes == (222, 44, 889) and run.region().size == run.record.size == 222
        assert len(run.ranking()) >= 889
    assert run.cut(run.record.size) == run.region()
    assert sorted(run.curve()["size"].unique()) == sorted(run.record.sizes)
    assert run.layers()["selected"].sum() == run.record.size and run.layers()["total"].sum() == D
    assert len(run.history()) and run.history()["localizer"].unique().tolist() == [name]
    assert len(run.predictions()) == 4 * (32 + 32)
    assert len(run.interpolation()) == 0


@pytest.fixture(scope="module")
def first(world: Path, session: Session, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a finished movement run of three sizes."""
    store = Store(tmp_path_factory.mktemp("first"))
    return produce(spec_of(world, sizes=("5%", "1%", "20%")), store, session=session)


def test_the_record_tells_where_the_numbers_come_from(first: Run, world: Path) -> None:
    record = first.record
    assert first.id.startswith("tiny-base-movement-222-s0-")
    assert record.d == D and record.share == 222 / D
    assert record.readout == "head" and record.device.startswith("cpu")
    assert record.base.fingerprint != record.finetuned.fingerprint and len(record.base.fingerprint) == 64
    assert record.base.source == str(world / "base")
    assert record.task.labels == ("class-terrible", "class-great")
    assert record.task.counts == {"train": 64, "validation": 32, "test": 32}
    assert record.task.majority["test"] == 0.5
    assert record.architecture.layers == 2 and record.architecture.heads == 2
    assert {"skillviz", "torch", "python"} <= record.versions.keys()
    assert record.seconds.keys() == set(PHASES) - {"check"}
    assert any("head" in note for note in record.notes)
    assert record.temperature is None and record.unfitted == AT_END  # the tiny pair makes no error on validation
    assert why_not(AT_END) in record.notes
    assert Region.header(first.path / "region.safetensors")["base_fingerprint"] == record.base.fingerprint


def test_no_text_of_the_data_is_stored(first: Run, world: Path) -> None:
    texts = [json.loads(line)["text"].encode() for line in (world / "test.jsonl").read_text().splitlines()]
    stored = b"".join(path.read_bytes() for path in first.path.rglob("*") if path.is_file())
    assert not any(text in stored for text in texts)


def test_stored_predictions_are_those_of_the_stored_region(first: Run, session: Session) -> None:
    pair, data = session.pair(first.spec), session.encoded(first.spec)
    for state in ("pretrained", "finetuned", "grafted", "complement"):
        region = first.region() if state in ("grafted", "complement") else None
        ids, labels, logits = first.logits(state, "test")
        assert np.array_equal(logits, predict(pair, data["test"], state, region))
        assert list(ids) == data["test"].ids and np.array_equal(labels, data["test"].labels)


def test_the_region_is_the_top_of_the_movement(first: Run, session: Session) -> None:
    pair = session.pair(first.spec)
    moved = (pair.finetuned - pair.base).abs()
    chosen = torch.from_numpy(first.region().flat())
    rest = torch.ones(D, dtype=torch.bool)
    rest[chosen] = False
    assert moved[chosen].min() >= moved[rest].max()


def test_movement_summaries_by_hand(first: Run, session: Session) -> None:
    pair = session.pair(first.spec)
    row = first.layers().iloc[3]
    start, end = pair.table.offsets[3], pair.table.offsets[4]
    moved = (pair.finetuned[start:end].double() - pair.base[start:end].double()).abs()
    assert row["parameter"] == pair.table.names[3]
    assert row["movement_max"] == pytest.approx(float(moved.max()), rel=1e-12)
    assert row["movement_mean"] == pytest.approx(float(moved.mean()), rel=1e-12)
    assert row["movement_l2"] == pytest.approx(float(moved.norm()), rel=1e-12)
    chosen = first.region().indices.get(row["parameter"], np.empty(0, dtype=np.int64))
    assert row["movement_l2_selected"] == pytest.approx(float(moved[torch.from_numpy(chosen)].norm()), rel=1e-12)
    held, whole = (float((first.layers()[c] ** 2).sum()) for c in ("movement_l2_selected", "movement_l2"))
    assert 0.05 < held / whole <= 1  # the top 5% of the entries hold more than 5% of the movement


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize("name", ["stagewise", "random"])
def test_the_same_spec_gives_the_same_run(world: Path, store: Store, name: str) -> None:
    spec = spec_of(world, localizer=name, steps=3, batch_size=16, seed=4)
    one, two = produce(spec, store), produce(spec, store)
    assert one.id != two.id and one.record.key == two.record.key
    assert np.array_equal(one.ranking(), two.ranking())
    same = ("predictions.parquet", "curve.parquet", "layers.parquet", "ranking.safetensors")
    assert [one.record.files[n] for n in same] == [two.record.files[n] for n in same]
    other = produce(spec.model_copy(update={"seed": 5}), store)
    assert not np.array_equal(other.ranking(), one.ranking())


def test_predictions_are_stored_at_every_size(world: Path, session: Session, store: Store) -> None:
    spec = spec_of(world, sizes=("5%", "1%", "20%"))
    run, other = (produce(spec.model_copy(update={"seed": seed}), store, session=session) for seed in (0, 1))
    curve = run.curve()
    assert set(run.sizes()["size"]) == set(run.record.sizes) - {run.record.size}
    for (size, split), rows in curve.groupby(["size", "split"]):
        _, labels, logits = run.logits("grafted", split, size=size)
        by_metric = dict(zip(rows["metric"], rows["value"], strict=True))
        again = score(logits, labels, names=("accuracy", "ece", "nll"))
        assert again == pytest.approx({name: by_metric[name] for name in again})
    assert set(run.ends()["state"]) == {"pretrained", "finetuned"}
    assert run.record.files["ends.parquet"] == other.record.files["ends.parquet"]
    assert len(run.predictions()) == 2 * len(run.ends())


@pytest.mark.parametrize(("sizes", "end"), [(("100%",), "finetuned"), (("1",), None)])
def test_the_largest_and_the_smallest_region(
    world: Path, session: Session, store: Store, sizes: tuple[str, ...], end: str | None
) -> None:
    run = produce(spec_of(world, sizes=sizes), store, session=session)
    assert run.record.size == (D if end else 1)
    if end:
        assert np.array_equal(run.logits("grafted")[2], run.logits(end)[2])
        assert np.array_equal(run.logits("complement")[2], run.logits("pretrained")[2])


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize(("family", "readout"), [("roberta", "prompt"), ("gpt2", "causal")])
def test_the_other_readouts(tmp_path: Path, store: Store, family: str, readout: str) -> None:
    base, finetuned = tiny_pair(tmp_path, family, readout)
    task = tiny_task(tmp_path, rows=16)
    spec = RunSpec(base=str(base), finetuned=str(finetuned), task=str(task), localizer="first-order", sizes=("2%",))
    run = produce(spec, store)
    assert run.record.readout == readout
    assert all(check.passed for check in run.record.checks)


@pytest.mark.slow
def test_three_labels_and_the_wise_grid(tmp_path: Path, store: Store) -> None:
    tiny_pair(tmp_path, labels=3)
    tiny_task(tmp_path, rows=24, labels=3)
    run = produce(spec_of(tmp_path, interpolation=True), store)
    grid = run.interpolation().query("metric == 'nll'")
    assert len(grid) == 22 and set(grid["path"]) == {"wise-ft", "wise-graft"}
    states = run.record.metrics["test"].states
    for path, end in (("wise-ft", "finetuned"), ("wise-graft", "grafted")):
        values = grid[grid["path"] == path].set_index("alpha")["value"]
        assert values[0.0] == states["pretrained"]["nll"].value
        assert values[1.0] == states[end]["nll"].value
        assert values[0.5] not in (values[0.0], values[1.0])


def test_a_moved_embedding_is_said_and_the_ends_still_hold(tmp_path: Path, store: Store) -> None:
    tiny_pair(tmp_path, move_embeddings=True)
    tiny_task(tmp_path, rows=16)
    run = produce(spec_of(tmp_path, interpolation=True), store)
    assert all(check.passed for check in run.record.checks)
    assert any("outside what can be grafted" in note for note in run.record.notes)
    values = run.interpolation().query("metric == 'nll' and path == 'wise-ft'").set_index("alpha")["value"]
    assert values[1.0] == run.record.metrics["test"].states["finetuned"]["nll"].value


def test_a_lean_pair_and_half_precision_activations(world: Path, store: Store) -> None:
    run = produce(spec_of(world, localizer="stagewise", steps=2, dtype="bfloat16", autocast="bfloat16"), store)
    assert run.record.size == 222 and all(check.passed for check in run.record.checks)


def test_a_session_loads_once_and_scores_the_ends_once(world: Path, store: Store, monkeypatch: Any) -> None:
    from skillviz.models import pair as pairs
    from skillviz.runs import passes as predicting

    loads, states = [], []
    real_load, real_predict = pairs.load_pair, predicting.predict
    monkeypatch.setattr(pairs, "load_pair", lambda *a, **k: loads.append(1) or real_load(*a, **k))

    def record(pair: Any, encoded: Any, state: str, *others: Any, **named: Any) -> Any:
        states.append(state)
        return real_predict(pair, encoded, state, *others, **named)

    monkeypatch.setattr(predicting, "predict", record)
    shared = Session()
    one = produce(spec_of(world), store, session=shared)
    two = produce(spec_of(world, localizer="random", seed=1), store, session=shared)
    ends = [state for state in states if state in ENDS]
    assert len(loads) == 1 and sorted(ends) == ["finetuned"] * 2 + ["pretrained"] * 2
    assert one.record.metrics["test"].states["finetuned"] == two.record.metrics["test"].states["finetuned"]
    three = produce(spec_of(world, max_test=10), store, session=shared)
    assert len(loads) == 1 and len([state for state in states if state in ENDS]) == 8
    assert three.record.metrics["test"].n == 10
    assert len(three.logits("finetuned")[0]) == 10


def test_environment_variables_stay_in_the_record(world: Path, store: Store, monkeypatch: Any) -> None:
    monkeypatch.setenv("SOMEWHERE", str(world))
    spec = spec_of(world, base="${SOMEWHERE}/base", finetuned="$SOMEWHERE/finetuned", task="${SOMEWHERE}/task.yaml")
    run = produce(spec, store)
    assert run.record.base.source == "${SOMEWHERE}/base"
    monkeypatch.delenv("SOMEWHERE")
    with pytest.raises(BadInput, match="SOMEWHERE"):
        produce(spec, store)


def test_progress_names_every_phase_and_step(world: Path, session: Session, store: Store) -> None:
    heard: list[Progress] = []
    produce(spec_of(world, localizer="stagewise", steps=3, batch_size=8), store, heard.append, session)
    assert list(dict.fromkeys(p.phase for p in heard)) == list(PHASES)
    steps = [p for p in heard if p.phase == "search" and p.done]
    assert [p.done for p in steps] == [1, 2, 3] and steps[0].total == 3
    assert all(p.loss is not None and p.size for p in steps)


# Errors before the folder exists.


def break_file(path: Path, how: str) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] if how == "cut" else b"\x80\x04nonsense")


BROKEN: dict[str, tuple[Callable[[Path], dict[str, Any]], type[SkillvizError]]] = {
    "size 0": (lambda w: {"sizes": ("0",)}, BadSize),
    "size above d": (lambda w: {"sizes": (str(D + 1),)}, BadSize),
    "second size": (lambda w: {"sizes": ("5%", "x")}, BadSize),
    "localizer": (lambda w: {"localizer": "nearest"}, UnknownLocalizer),
    "option": (lambda w: {"options": {"warmth": 3}}, BadInput),
    "task": (lambda w: {"task": "sst3"}, UnknownTask),
    "folder": (lambda w: {"base": str(w / "nothing")}, ModelNotFound),
    "cuda": (lambda w: {"device": "cuda"}, NoDevice),
    "readout": (lambda w: {"readout": "causal"}, SkillvizError),
}


@pytest.mark.parametrize("name", BROKEN)
def test_bad_use_is_one_sentence_and_leaves_no_folder(world: Path, store: Store, session: Session, name: str) -> None:
    if name == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has CUDA; the case needs one without")
    changes, error = BROKEN[name]
    with pytest.raises(error) as caught:
        produce(spec_of(world, **changes(world)), store, session=session)
    assert "\n" not in str(caught.value)
    assert not store.root.exists() or list(store.root.iterdir()) == []


DAMAGED: dict[str, tuple[Callable[[Path], Any], type[SkillvizError]]] = {
    "truncated": (lambda w: break_file(w / "finetuned" / "model.safetensors", "cut"), CorruptFile),
    "bin only": (
        lambda w: (w / "base" / "model.safetensors").rename(w / "base" / "pytorch_model.bin"), UnsafeWeights,
    ),
    "no data": (lambda w: (w / "train.jsonl").write_text(""), BadData),
    "no file": (lambda w: (w / "test.jsonl").unlink(), BadData),
    "label": (lambda w: (w / "test.jsonl").write_text('{"text": "a", "label": 7}\n'), BadData),
    "same model": (
        lambda w: shutil.copytree(w / "finetuned", w / "base", dirs_exist_ok=True), PairMismatch,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_input_is_one_sentence_and_lists_no_run(world: Path, tmp_path: Path, store: Store, name: str) -> None:
    own = tmp_path / "world"
    shutil.copytree(world, own)
    damage, error = DAMAGED[name]
    damage(own)
    with pytest.raises(error) as caught:
        produce(spec_of(own), store)
    assert "\n" not in str(caught.value)
    assert store.list() == [] and store.unreadable() == []


def test_a_pair_that_does_not_fit_leaves_no_folder(world: Path, tmp_path: Path, store: Store) -> None:
    tiny_pair(tmp_path, "distilbert")
    with pytest.raises(PairMismatch):
        produce(spec_of(world, base=str(tmp_path / "base")), store)
    assert not store.root.exists()


def test_a_label_word_of_several_tokens_lists_no_run(tmp_path: Path, store: Store) -> None:
    tiny_pair(tmp_path, "bert", "prompt")
    path = tiny_task(tmp_path, rows=8)
    path.write_text(path.read_text().replace("- terrible", "- atrocious"))
    with pytest.raises(BadLabelWord):
        produce(spec_of(tmp_path), store)
    assert store.list() == []
    assert [e.record.error.kind for e in store.unfinished()] in ([], ["BadLabelWord"])


# Errors in the middle of a run.


def test_ctrl_c_leaves_a_cancelled_run(world: Path, session: Session, store: Store) -> None:
    def stop(progress: Progress) -> None:
        if progress.phase == "search" and progress.done == 2:
            raise KeyboardInterrupt

    spec = spec_of(world, localizer="stagewise", steps=5, batch_size=8)
    with pytest.raises(KeyboardInterrupt) as interrupt:
        produce(spec, store, stop, session)
    assert store.list() == []
    (entry,) = store.unfinished()
    assert f"jobs resume {entry.record.run_id}" in interrupt.value.__notes__[0]
    assert entry.record.status == "cancelled" and entry.record.error is None
    assert len((entry.path / "work" / "events.jsonl").read_text().splitlines()) >= 4
    assert produce(spec, store, session=session).record.checks[-1].passed  # the model was not changed


def test_ctrl_c_at_the_very_end_leaves_a_finished_run(
    world: Path, session: Session, store: Store, monkeypatch: Any
) -> None:
    def interrupted(self: RunFolder) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "clear_work", interrupted)
    with pytest.raises(KeyboardInterrupt):
        produce(spec_of(world), store, session=session)
    (run,) = store.list()
    assert run.record.status == "finished" and store.verify(run.id) == []


def failing(error: Exception) -> Callable[..., Any]:
    def run(*_: Any, **__: Any) -> Any:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "kind"),
    [(BadInput("a value."), "BadInput"), (MemoryError("all of it"), OUT_OF_MEMORY), (ZeroDivisionError("x"), BUG)],
)
def test_a_failure_is_classed_and_raised_again(
    world: Path, session: Session, store: Store, monkeypatch: Any, error: Exception, kind: str
) -> None:
    monkeypatch.setattr(engine, "search", failing(error))
    with pytest.raises(type(error)):
        produce(spec_of(world), store, session=session)
    (entry,) = store.unfinished()
    assert entry.record.status == "failed" and entry.record.error.kind == kind
    assert entry.record.error.hint and entry.record.finished
    assert store.list() == []


@pytest.mark.parametrize("room", range(12))
def test_a_disk_that_fills_up_lists_no_run(
    world: Path, session: Session, store: Store, monkeypatch: Any, room: int
) -> None:
    real, left = atomic._sync, room

    def sync(path: Path) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path)

    monkeypatch.setattr(atomic, "_sync", sync)
    with pytest.raises(DiskFull):
        produce(spec_of(world), store, session=session)
    assert store.list() == [] and store.unreadable() == []
    for entry in store.unfinished():  # only the record and the log are left
        assert entry.record.status in ("failed", "queued")
        assert not list(entry.path.glob("*.parquet"))


def test_planted_errors_fail_the_self_checks(world: Path, session: Session, store: Store, monkeypatch: Any) -> None:
    real = search.Searched.ranking
    monkeypatch.setattr(search.Searched, "ranking", lambda self: real(self)[::-1])
    run = produce(spec_of(world, sizes=("5%", "20%")), store, session=session)
    assert {c.name: c.passed for c in run.record.checks} == {
        "size": True, "ranking": False, "ends": True, "restored": True,
    }  # fmt: skip


RANDOM = LOCALIZERS["random"]


def one_too_few(problem: Any, size: int, *, seed: int, options: Any) -> Any:
    return (yield from RANDOM.search(problem, size - 1, seed=seed, options=options))


def test_a_localizer_that_returns_too_few_entries_fails_its_check(
    world: Path, session: Session, store: Store, monkeypatch: Any
) -> None:
    planted = dataclasses.replace(RANDOM, run=f"{__name__}:one_too_few", nested=False)
    monkeypatch.setitem(localizers.LOCALIZERS, "random", planted)
    run = produce(spec_of(world, localizer="random"), store, session=session)
    assert [c.name for c in run.record.checks if not c.passed] == ["size"]
