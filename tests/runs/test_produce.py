"""Tests of a run from two model folders to a finished record, its self-checks, and each way it can stop earlier."""

import dataclasses
import errno
import json
import os
import shutil
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import numpy as np
import pytest
import torch

from skillviz import atomic, errors
from skillviz.core.encoded import Encoded
from skillviz.core.localizers import table as localizers
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.metrics import score
from skillviz.models import pair as pairs
from skillviz.models.pair import ModelPair
from skillviz.runs import passes, search
from skillviz.runs import produce as engine
from skillviz.runs.held_out import AT_END, why_not
from skillviz.runs.process import PHASES, Progress
from skillviz.runs.selfcheck import ends_check, fingerprint_of, ranking_check, restored_check, size_check
from skillviz.runs.session import ENDS
from tests.refused import refuses
from tests.runs.tiny_world import (
    D,
    Region,
    Run,
    RunFolder,
    Session,
    Store,
    failed_checks,
    predict,
    produce,
    produced,
    spec_of,
)
from tests.tiers import first
from tests.tiny import tiny_pair, tiny_task


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("name", first(LOCALIZERS))
def test_every_localizer_makes_a_whole_run(world: Path, session: Session, store: Store, name: str) -> None:
    own = {"learned": {"lr": 1e4, "base_share": 0.01}, "expression": {"expression": {"layers": [1]}}}
    run = produce(
        spec_of(world, localizer=name, sizes=("5%", "1%", "20%"), steps=4, batch_size=16, options=own.get(name, {})),
        store,
        session=session,
    )
    record, layers = run.record, run.layers()
    assert [(check.name, check.passed) for check in record.checks] == [
        ("size", True), ("ranking", True), ("ends", True), ("restored", True),
    ]  # fmt: skip
    if LOCALIZERS[name].budgeted:
        assert record.sizes == (222, 44, 889)
        assert record.size == 222
        assert run.region().size == 222
        assert len(run.ranking()) >= 889
    assert store.verify(run.id) == []
    assert run.cut(record.size) == run.region()
    assert set(run.curve()["size"]) == set(record.sizes)
    assert set(run.history()["localizer"]) == {name}
    assert layers["selected"].sum() == record.size
    assert layers["total"].sum() == D
    assert len(run.predictions()) == 4 * (32 + 32)
    assert len(run.interpolation()) == 0


first = produced(sizes=("5%", "1%", "20%"))


def test_the_record_tells_where_the_numbers_come_from(first: Run, world: Path) -> None:
    record, base = first.record, first.record.base
    assert first.id.startswith("tiny-base-movement-222-s0-") and record.d == D
    assert record.model_dump() | {  # no temperature: the tiny pair makes no error on validation
        "share": 222 / D, "readout": "head", "temperature": None, "unfitted": AT_END,
        "base": base.model_dump() | {"source": str(world / "base"), "fingerprint": base.fingerprint},
        "task": record.task.model_dump() | {
            "labels": ("class-terrible", "class-great"), "counts": {"train": 64, "validation": 32, "test": 32},
            "majority": record.task.majority | {"test": 0.5},
        },
        "architecture": record.architecture.model_dump() | {"layers": 2, "heads": 2},
    } == record.model_dump()  # fmt: skip
    assert base.fingerprint != record.finetuned.fingerprint and len(base.fingerprint) == 64
    assert {"skillviz", "torch", "python"} <= record.versions.keys()
    assert record.device.startswith("cpu")
    assert record.seconds.keys() == set(PHASES) - {"check"}
    assert first.region_header()["base_fingerprint"] == base.fingerprint
    assert why_not(AT_END) in record.notes
    assert any("head" in note for note in record.notes)


def test_no_text_of_the_data_is_stored(first: Run, world: Path) -> None:
    texts = [json.loads(line)["text"].encode() for line in (world / "test.jsonl").read_text().splitlines()]
    stored = b"".join(path.read_bytes() for path in first.path.rglob("*") if path.is_file())
    assert [text for text in texts if text in stored] == []


def test_stored_predictions_are_those_of_the_stored_region(first: Run, session: Session) -> None:
    pair, data, region = session.pair(first.spec), session.encoded(first.spec)["test"], first.region()
    for state, inside in (("pretrained", None), ("finetuned", None), ("grafted", region), ("complement", region)):
        ids, labels, logits = first.logits(state, "test")
        assert (
            np.array_equal(logits, predict(pair, data, state, inside))
            and list(ids) == data.ids
            and np.array_equal(labels, data.labels)
        ), state


def test_the_region_is_the_top_of_the_movement(first: Run, session: Session) -> None:
    pair = session.pair(first.spec)
    is_chosen = torch.zeros(D, dtype=torch.bool)
    is_chosen[torch.from_numpy(first.region().flat())] = True
    moved = (pair.finetuned - pair.base).abs()
    assert moved[is_chosen].min() >= moved[~is_chosen].max()


def test_movement_summaries_by_hand(first: Run, session: Session) -> None:
    pair, row = session.pair(first.spec), first.layers().iloc[3]
    span, name = slice(*pair.table.offsets[3:5]), pair.table.names[3]
    moved = (pair.finetuned[span].double() - pair.base[span].double()).abs()
    wanted = {
        "max": moved.max(),
        "mean": moved.mean(),
        "l2": moved.norm(),
        "l2_selected": moved[torch.from_numpy(first.region().indices.get(name, np.empty(0, dtype=np.int64)))].norm(),
    }
    assert {"parameter": name} | {f"movement_{kind}": float(value) for kind, value in wanted.items()} == {
        "parameter": row["parameter"],
        **{f"movement_{kind}": pytest.approx(row[f"movement_{kind}"], rel=1e-12) for kind in wanted},
    }


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize("name", ["stagewise", "random"])
def test_the_same_spec_gives_the_same_run(world: Path, store: Store, name: str) -> None:
    spec = spec_of(world, localizer=name, steps=3, batch_size=16, seed=4)
    one, two = produce(spec, store), produce(spec, store)
    assert one.id != two.id and one.record.key == two.record.key
    same = ("predictions.parquet", "curve.parquet", "layers.parquet", "ranking.safetensors")
    assert [one.record.files[n] for n in same] == [two.record.files[n] for n in same] and not np.array_equal(
        produce(spec.model_copy(update={"seed": 5}), store).ranking(), one.ranking()
    )


def test_predictions_are_stored_at_every_size(first: Run, world: Path, session: Session, store: Store) -> None:
    other = produce(first.spec.model_copy(update={"seed": 1}), store, session=session)
    for (size, split), rows in first.curve().groupby(["size", "split"]):
        _, labels, logits = first.logits("grafted", split, size=size)
        again = score(logits, labels, names=("accuracy", "ece", "nll"))
        assert again == pytest.approx(rows.set_index("metric")["value"][list(again)].to_dict()), (size, split)
    assert set(first.sizes()["size"]) == set(first.record.sizes) - {first.record.size}
    assert set(first.ends()["state"]) == {"pretrained", "finetuned"}
    assert first.record.files["ends.parquet"] == other.record.files["ends.parquet"]
    assert len(first.predictions()) == 2 * len(first.ends())


@pytest.mark.parametrize(
    ("size", "entries", "ends"),
    [("100%", D, {"grafted": "finetuned", "complement": "pretrained"}), ("1", 1, {})],
)
def test_the_largest_and_the_smallest_region(
    world: Path, session: Session, store: Store, size: str, entries: int, ends: dict[str, str]
) -> None:
    run = produce(spec_of(world, sizes=(size,)), store, session=session)
    assert (
        run.record.size,
        {s: end for s, end in ends.items() if np.array_equal(run.logits(s)[2], run.logits(end)[2])},
    ) == (entries, ends)


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize(("family", "readout"), [("roberta", "prompt"), ("gpt2", "causal")])
def test_the_other_readouts(tmp_path: Path, store: Store, family: str, readout: str) -> None:
    tiny_pair(tmp_path, family, readout)
    tiny_task(tmp_path, rows=16)
    run = produce(spec_of(tmp_path, localizer="first-order", sizes=("2%",)), store)
    assert (run.record.readout, failed_checks(run)) == (readout, [])


@pytest.mark.slow
def test_three_labels_and_the_wise_grid(tmp_path: Path, store: Store) -> None:
    tiny_pair(tmp_path, labels=3)
    tiny_task(tmp_path, rows=24, labels=3)
    run = produce(spec_of(tmp_path, interpolation=True), store)
    grid, states = run.interpolation().query("metric == 'nll'"), run.record.metrics["test"].states
    assert len(grid) == 22 and set(grid["path"]) == {"wise-ft", "wise-graft"}
    for path, end in (("wise-ft", "finetuned"), ("wise-graft", "grafted")):
        values = grid[grid["path"] == path].set_index("alpha")["value"]
        assert (values[0.0], values[1.0]) == (states["pretrained"]["nll"].value, states[end]["nll"].value) and values[
            0.5
        ] not in (values[0.0], values[1.0])


def test_a_moved_embedding_is_said_and_the_ends_still_hold(tmp_path: Path, store: Store) -> None:
    tiny_pair(tmp_path, move_embeddings=True)
    tiny_task(tmp_path, rows=16)
    run = produce(spec_of(tmp_path, interpolation=True), store)
    assert failed_checks(run) == [] and any("outside what can be grafted" in note for note in run.record.notes)
    assert (
        run.interpolation().query("metric == 'nll' and path == 'wise-ft'").set_index("alpha")["value"][1.0]
        == run.record.metrics["test"].states["finetuned"]["nll"].value
    )


def test_a_lean_pair_and_half_precision_activations(world: Path, store: Store) -> None:
    run = produce(spec_of(world, localizer="stagewise", steps=2, dtype="bfloat16", autocast="bfloat16"), store)
    assert (run.record.size, failed_checks(run)) == (222, [])


def test_a_session_loads_once_and_scores_the_ends_once(world: Path, store: Store, monkeypatch: Any) -> None:
    load, scored = Mock(wraps=pairs.load_pair), Mock(wraps=passes.predict)
    monkeypatch.setattr(pairs, "load_pair", load)
    monkeypatch.setattr(passes, "predict", scored)
    shared = Session()

    def ends() -> list[str]:
        return sorted(call.args[2] for call in scored.call_args_list if call.args[2] in ENDS)

    two = [produce(spec_of(world, **more), store, session=shared) for more in ({}, {"localizer": "random", "seed": 1})]
    assert (load.call_count, ends()) == (1, ["finetuned"] * 2 + ["pretrained"] * 2)
    one, other = (run.record.metrics["test"].states["finetuned"] for run in two)
    assert one == other
    few = produce(spec_of(world, max_test=10), store, session=shared)
    assert (load.call_count, len(ends())) == (1, 8) and few.record.metrics["test"].n == len(
        few.logits("finetuned")[0]
    ) == 10


def test_environment_variables_stay_in_the_record(world: Path, store: Store, monkeypatch: Any) -> None:
    monkeypatch.setenv("SOMEWHERE", str(world))
    spec = spec_of(world, base="${SOMEWHERE}/base", finetuned="$SOMEWHERE/finetuned", task="${SOMEWHERE}/task.yaml")
    assert produce(spec, store).record.base.source == "${SOMEWHERE}/base"
    monkeypatch.delenv("SOMEWHERE")
    refuses(errors.BadInput, "SOMEWHERE", produce, spec, store)


def test_progress_names_every_phase_and_step(world: Path, session: Session, store: Store) -> None:
    heard: list[Progress] = []
    produce(spec_of(world, localizer="stagewise", steps=3, batch_size=8), store, heard.append, session)
    steps = [p for p in heard if p.phase == "search" and p.done]
    assert (
        list(dict.fromkeys(p.phase for p in heard)),
        [(p.done, p.loss is None, bool(p.size)) for p in steps],
        steps[0].total,
    ) == (list(PHASES), [(n, False, True) for n in (1, 2, 3)], 3)


# Errors before the folder exists.


def several_tokens(world: Path) -> None:
    tiny_pair(world, "bert", "prompt")
    (world / "task.yaml").write_text((world / "task.yaml").read_text().replace("- terrible", "- atrocious"))


REFUSED: dict[str, tuple[dict[str, Any], Callable[[Path], Any], type[Exception]]] = {
    "size 0": ({"sizes": ("0",)}, Path.exists, errors.BadSize),
    "size above d": ({"sizes": (str(D + 1),)}, Path.exists, errors.BadSize),
    "second size": ({"sizes": ("5%", "x")}, Path.exists, errors.BadSize),
    "localizer": ({"localizer": "nearest"}, Path.exists, errors.UnknownLocalizer),
    "option": ({"options": {"warmth": 3}}, Path.exists, errors.BadInput),
    "task": ({"task": "sst3"}, Path.exists, errors.UnknownTask),
    "folder": ({}, lambda w: shutil.rmtree(w / "base"), errors.ModelNotFound),
    "cuda": ({"device": "cuda"}, Path.exists, errors.NoDevice),
    "readout": ({"readout": "causal"}, Path.exists, errors.SkillvizError),
    "truncated": ({}, lambda w: os.truncate(w / "finetuned" / "model.safetensors", 20_000), errors.CorruptFile),
    "bin only": (
        {}, lambda w: (w / "base" / "model.safetensors").rename(w / "base" / "pytorch_model.bin"), errors.UnsafeWeights,
    ),
    "no data": ({}, lambda w: (w / "train.jsonl").write_text(""), errors.BadData),
    "no file": ({}, lambda w: (w / "test.jsonl").unlink(), errors.BadData),
    "label": ({}, lambda w: (w / "test.jsonl").write_text('{"text": "a", "label": 7}\n'), errors.BadData),
    "same model": (
        {}, lambda w: shutil.copytree(w / "finetuned", w / "base", dirs_exist_ok=True), errors.PairMismatch,
    ),
    "another family": (
        {}, lambda w: shutil.copytree(tiny_pair(w / "x", "distilbert")[0], w / "base", dirs_exist_ok=True),
        errors.PairMismatch,
    ),
    "label word of several tokens": ({}, several_tokens, errors.BadLabelWord),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_use_is_one_sentence_and_leaves_no_folder(world: Path, tmp_path: Path, store: Store, name: str) -> None:
    if name == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has CUDA; the case needs one without")
    changes, damage, error = REFUSED[name]
    own = shutil.copytree(world, tmp_path / "world")
    damage(own)
    refuses(error, r"^[^\n]*\Z", produce, spec_of(own, **changes), store)
    assert store.list() == store.unreadable() == []
    assert len(list(store.root.glob("*"))) == (name == "same model"), "only equal weights are noticed late"


# Errors in the middle of a run.


def test_ctrl_c_at_the_very_end_leaves_a_finished_run(
    world: Path, session: Session, store: Store, monkeypatch: Any
) -> None:
    monkeypatch.setattr(RunFolder, "clear_work", Mock(side_effect=KeyboardInterrupt))
    refuses(KeyboardInterrupt, None, produce, spec_of(world), store, session=session)
    (run,) = store.list()
    assert (run.record.status, store.verify(run.id)) == ("finished", [])


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.BadInput("a value."), "BadInput"), (MemoryError("all of it"), errors.OUT_OF_MEMORY),
        (ZeroDivisionError("x"), errors.BUG),
    ],
)  # fmt: skip
def test_a_failure_is_classed_and_raised_again(
    world: Path, session: Session, store: Store, monkeypatch: Any, error: Exception, kind: str
) -> None:
    monkeypatch.setattr(engine, "search", Mock(side_effect=error))
    refuses(type(error), None, produce, spec_of(world), store, session=session)
    (record,) = (entry.record for entry in store.unfinished())
    assert record.status == "failed"
    assert record.error.kind == kind
    assert store.list() == []
    assert record.error.hint
    assert record.finished


@pytest.mark.parametrize("room", range(12))
def test_a_disk_that_fills_up_lists_no_run(
    world: Path, session: Session, store: Store, monkeypatch: Any, room: int
) -> None:
    monkeypatch.setattr(
        atomic,
        "_sync",
        Mock(
            wraps=atomic._sync,
            side_effect=chain([DEFAULT] * room, repeat(OSError(errno.ENOSPC, "No space left on device"))),
        ),
    )
    refuses(errors.DiskFull, None, produce, spec_of(world), store, session=session)
    assert store.list() == [], "only the record and the log are left"
    assert store.unreadable() == [], "only the record and the log are left"
    assert list(store.root.glob("*/*.parquet")) == [], "only the record and the log are left"
    assert {entry.record.status for entry in store.unfinished()} <= {"failed", "queued"}, (
        "only the record and the log are left"
    )


def test_planted_errors_fail_the_self_checks(world: Path, session: Session, store: Store, monkeypatch: Any) -> None:
    real = search.Searched.ranking
    monkeypatch.setattr(search.Searched, "ranking", lambda self: real(self)[::-1])
    assert failed_checks(produce(spec_of(world, sizes=("5%", "20%")), store, session=session)) == ["ranking"]


RANDOM = LOCALIZERS["random"]


def one_too_few(problem: Any, size: int, *, seed: int, options: Any) -> Any:
    return (yield from RANDOM.search(problem, size - 1, seed=seed, options=options))


def test_a_localizer_that_returns_too_few_entries_fails_its_check(
    world: Path, session: Session, store: Store, monkeypatch: Any
) -> None:
    monkeypatch.setitem(
        localizers.LOCALIZERS, "random", dataclasses.replace(RANDOM, run=f"{__name__}:one_too_few", nested=False)
    )
    assert failed_checks(produce(spec_of(world, localizer="random"), store, session=session)) == ["size"]


@pytest.mark.parametrize(
    ("check", "order", "size", "passes"),
    [
        (size_check, [9, 3, 5], (3,), True), (size_check, [9, 3, 5], (None,), True),
        (size_check, [9, 3, 5], (4,), False), (size_check, [9, 3, 5, 5], (None,), False),
        (size_check, [9, 3, 5, 5], (3,), False),
        (ranking_check, [9, 3, 5, 0], (), True), (ranking_check, [9, 3, 0, 5], (), False),
        (ranking_check, [9, 3, 5, 9], (), False), (ranking_check, [9, 3], (), False),
    ],
)  # fmt: skip
def test_the_size_must_be_the_one_asked_for_and_the_ranking_begins_with_the_region(
    check: Callable[..., Any], order: list[int], size: tuple[int | None, ...], passes: bool
) -> None:
    assert check(Region.from_flat(np.array([3, 5, 9]), {"a": (4, 4)}), np.array(order), *size).passed == passes


@pytest.fixture
def pair(world: Path, session: Session) -> ModelPair:
    return session.pair(spec_of(world))


@pytest.fixture
def encoded(world: Path, session: Session) -> Encoded:
    return session.encoded(spec_of(world))["test"]


def test_the_ends_hold(pair: ModelPair, encoded: Encoded) -> None:
    check = ends_check(pair, encoded)
    assert check.passed and "bit for bit" in check.detail


def test_a_graft_that_misses_one_entry_is_seen(pair: ModelPair, encoded: Encoded, monkeypatch: Any) -> None:
    real = Region.blocks
    moved = int((pair.base != pair.finetuned).nonzero()[0])  # unmoved entries are equal at both ends
    monkeypatch.setattr(
        Region, "blocks", lambda region, entries=10: (block[block != moved] for block in real(region, entries))
    )
    assert not ends_check(pair, encoded).passed


def test_one_changed_bit_anywhere_is_seen(pair: ModelPair) -> None:
    before, found = fingerprint_of(pair), []
    for parameter in (pair.flat.theta, pair.model.get_parameter("classifier.weight").data.view(-1)):
        own = parameter[0].clone()
        for value in (own, torch.nextafter(own, own + 1), own):
            parameter[0] = value
            found.append(restored_check(before, pair).passed)
    assert found == [True, False, True] * 2
