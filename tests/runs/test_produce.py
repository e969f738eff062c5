"""Tests of a run from two model folders to a finished record, and of each way it can stop earlier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.metrics import score
from skillviz.core.region import Region
from skillviz.errors import (
    BadInput,
)
from skillviz.models.predict import predict
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
