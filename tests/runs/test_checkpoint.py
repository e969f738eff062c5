"""Tests of a run cut short: it resumes from its checkpoint with the same regions and history, and repeats no step."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from skillviz import atomic
from skillviz.core.localizers.record import number
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.region import Region
from skillviz.errors import StoreError, WrongCheckpoint
from skillviz.models import state_file
from skillviz.models.state_file import Pause
from skillviz.runs import produce as engine
from skillviz.runs.checkpoint import CHECKPOINT, Checkpoint, Checkpoints
from skillviz.runs.folder import RunFolder
from skillviz.runs.process import Progress
from skillviz.runs.produce import carry_on, produce
from skillviz.runs.run import Run
from skillviz.runs.search import Searched
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from tests.runs.tiny_world import spec_of
from tests.tiers import USUAL, first

OPTIONS: dict[str, dict[str, Any]] = {"learned": {"lr": 1e4, "base_share": 0.01}, "linearized": {"examples": 64}}
OPTIONS["expression"] = {"expression": {"difference": [{"layers": [0]}, {"kinds": ["MLP in", "MLP out"]}]}}


def asked(world: Path, name: str, **changes: Any) -> RunSpec:
    fields = {"sizes": ("5%", "2%"), "steps": 5, "batch_size": 16, "options": OPTIONS.get(name, {})}
    return spec_of(world, localizer=name, **{**fields, **changes})


def interrupted(spec: RunSpec, store: Store, session: Session, told: int, phase: str = "search") -> RunFolder:
    """Return the folder of a run that Ctrl-C ended after a phase had reported this many steps."""
    heard = 0

    def stop(progress: Progress) -> None:
        nonlocal heard
        heard += progress.phase == phase and progress.done > 0
        if heard == told:
            raise KeyboardInterrupt

    before = {entry.id for entry in store.unfinished()}
    with pytest.raises(KeyboardInterrupt):
        produce(spec, store, stop, session)
    (entry,) = [e for e in store.unfinished() if e.id not in before]
    assert entry.record.status == "cancelled" and store.list() == []
    return RunFolder(entry.path)


def resumed(folder: RunFolder, session: Session) -> Run:
    folder.reopen()
    return carry_on(folder, session=session)


def same(one: Run, other: Run) -> None:
    """Assert that both runs found the same region in the same steps."""
    assert np.array_equal(one.ranking(), other.ranking()) and one.record.sizes == other.record.sizes
    columns = ["localizer", "target", "step", "loss", "size", "added", "removed"]
    pd.testing.assert_frame_equal(one.history()[columns], other.history()[columns])
    for name in ("region.safetensors", "predictions.parquet", "curve.parquet", "layers.parquet"):
        if name != "region.safetensors":  # its header has the run's name
            assert one.record.files[name] == other.record.files[name], name
    assert one.region() == other.region() and one.record.notes == other.record.notes
    assert all(check.passed for check in other.record.checks)


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("name", first(LOCALIZERS, ("stagewise", "learned").__contains__, USUAL.__contains__))
def test_every_localizer_goes_on_where_it_was_cut(world: Path, session: Session, store: Store, name: str) -> None:
    spec = asked(world, name)
    whole = produce(spec, Store(store.root / "whole"), session=session)
    for told in sorted({1, 3, len(whole.history()) - 1, len(whole.history())} - {0}):
        if told > len(whole.history()):
            continue
        folder = interrupted(spec, store, session, told)
        assert (folder.work / CHECKPOINT).is_file()
        run = resumed(folder, session)
        same(whole, run)
        seconds = run.history().groupby("target", sort=False)["seconds"]
        assert all(s.is_monotonic_increasing for _, s in seconds)
        assert [p.name for p in (run.path / "work").iterdir()] == ["log.txt"], "the checkpoint is gone"
        store.delete(run.id)


def test_a_finished_search_is_not_made_again(
    world: Path, session: Session, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = asked(world, "stagewise")
    folder = interrupted(spec, store, session, 7)  # the second step of the second size
    steps: list[tuple[int, int]] = []
    real = engine._Production.on_step
    monkeypatch.setattr(
        engine._Production, "on_step", lambda self, s: (steps.append((s.target, s.step.step)), real(self, s))[1]
    )
    run = resumed(folder, session)
    assert steps == [(88, 3), (88, 4), (88, 5)]
    assert run.history()[["target", "step"]].values.tolist() == [[t, s] for t in (222, 88) for s in range(1, 6)]


def test_the_search_is_kept_when_the_scoring_is_cut(world: Path, session: Session, store: Store) -> None:
    spec = asked(world, "stagewise")
    whole = produce(spec, Store(store.root / "whole"), session=session)
    folder = interrupted(spec, store, session, 5, phase="evaluate")  # both states on both splits are stored
    assert Checkpoint.read(folder.work / CHECKPOINT).state is None
    assert list(folder.path.glob("*.parquet"))  # incomplete, never listed
    folder.reopen()
    assert not list(folder.path.glob("*.parquet"))
    same(whole, carry_on(folder, session=session))


@pytest.mark.nightly
def test_cut_again_and_again(world: Path, session: Session, store: Store) -> None:
    spec = asked(world, "frank-wolfe")
    whole = produce(spec, Store(store.root / "whole"), session=session)
    folder = interrupted(spec, store, session, 2)
    for _ in range(3):
        folder.reopen()
        heard = 0

        def stop(progress: Progress) -> None:
            nonlocal heard
            heard += progress.phase == "search" and progress.done > 0
            if heard == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            carry_on(folder, stop, session)
    run = resumed(folder, session)
    same(whole, run)


def test_an_error_within_a_step_leaves_the_checkpoint_before_it(
    world: Path, session: Session, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error inside a step keeps the previous checkpoint, and the run resumes from there."""
    monkeypatch.setenv(state_file.ENVIRONMENT, "0")
    monkeypatch.setattr(state_file, "SPARED", 0)
    spec = asked(world, "stagewise")
    whole = produce(spec, Store(store.root / "whole"), session=session)
    pair = session.pair(spec)
    real, left = type(pair.flat).zero_grad, 4

    def failing(self: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise MemoryError("planted")
        real(self)

    monkeypatch.setattr(type(pair.flat), "zero_grad", failing)
    with pytest.raises(MemoryError):
        produce(spec, store, session=session)
    monkeypatch.setattr(type(pair.flat), "zero_grad", real)
    (entry,) = store.unfinished()
    assert entry.record.error.kind == "out of memory"
    kept = Checkpoint.read(entry.path / "work" / CHECKPOINT)
    assert int(kept.state["step"]) == 4 and len(kept.searched.history) == 4
    same(whole, resumed(RunFolder(entry.path), session))


def region_file(session: Session, spec: RunSpec, path: Path, entries: int) -> Path:
    """Save the first entries of the pair's table as a region."""
    Region.from_flat(np.arange(entries), session.pair(spec).table.shapes).save(path)
    return path


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("name", ["learned", "learned-ranked"])
def test_a_mask_that_starts_from_a_region_file_goes_on_where_it_was_cut(
    world: Path, session: Session, store: Store, tmp_path: Path, name: str
) -> None:
    file = region_file(session, asked(world, name), tmp_path / "base.safetensors", 120)
    spec = asked(world, name, options={"lr": 1e4, "base": str(file)})
    whole = produce(spec, Store(store.root / "whole"), session=session)
    same(whole, resumed(interrupted(spec, store, session, 3), Session()))


def test_a_mask_does_not_go_on_from_another_region_file(
    world: Path, session: Session, store: Store, tmp_path: Path
) -> None:
    file = region_file(session, asked(world, "learned"), tmp_path / "base.safetensors", 120)
    folder = interrupted(asked(world, "learned", options={"lr": 1e4, "base": str(file)}), store, session, 3)
    region_file(session, folder.record.spec, file, 121)
    with pytest.raises(WrongCheckpoint, match="present region file"):
        resumed(folder, session)


@pytest.fixture
def cut(world: Path, session: Session, store: Store, tmp_path: Path) -> tuple[RunFolder, Path]:
    """Return an interrupted run on a separate world, which a test may damage."""
    own = tmp_path / "world"
    shutil.copytree(world, own)
    return interrupted(asked(own, "stagewise"), store, session, 2), own


def test_other_weights_or_data_are_refused_in_a_sentence(cut: tuple[RunFolder, Path]) -> None:
    folder, own = cut
    other = (own / "train.jsonl").read_text().splitlines()
    (own / "train.jsonl").write_text("\n".join(other[:-2]) + "\n")
    folder.reopen()
    with pytest.raises(WrongCheckpoint, match="present data") as caught:
        carry_on(folder)
    assert "delete checkpoint.safetensors" in str(caught.value) and "\n" not in str(caught.value)
    assert RunFolder(folder.path).record.error.kind == "WrongCheckpoint"


@pytest.mark.parametrize("part", ["spec", "base", "finetuned", "data", "region", "definition"])
def test_every_part_of_the_stamp_counts(tmp_path: Path, part: str) -> None:
    stamp = {"spec": "a", "base": "b", "finetuned": "c", "data": "d", "region": "", "definition": "e"}
    computed_on = {"device": "cpu (1 threads)"}
    path = tmp_path / CHECKPOINT
    found = Searched({7: np.arange(7)}, [{"target": 7, "step": 1, "loss": 0.1, "seconds": 1.5}], ["a remark"])
    Checkpoint(stamp, computed_on, 3.5, found, {"step": number(4), "score": torch.ones(3)}).write(path)
    kept = Checkpoints(path, stamp, computed_on).restored()
    assert kept.searched.history == found.history and kept.searched.notes == ["a remark"] and kept.seconds == 3.5
    assert kept.searched.orders[7].tolist() == list(range(7)) and torch.equal(kept.state["score"], torch.ones(3))
    with pytest.raises(WrongCheckpoint, match="does not match the present"):
        Checkpoints(path, {**stamp, part: "other"}, computed_on).restored()
    elsewhere = Checkpoints(path, stamp, {"device": "cuda (GPU)"}).restored()
    assert "resumed on cuda (GPU)" in elsewhere.searched.notes[-1]


@pytest.mark.parametrize("damage", ["cut", "other"])
def test_a_damaged_file_is_one_sentence(tmp_path: Path, damage: str) -> None:
    path = tmp_path / CHECKPOINT
    Checkpoint({}, {}, 0.0, Searched({3: np.arange(3)})).write(path)
    content = path.read_bytes()
    path.write_bytes({"cut": content[:-5], "other": b"x" * 40}[damage])
    with pytest.raises(WrongCheckpoint, match="cannot be read") as caught:
        Checkpoint.read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("where", ["order", "state", "header"])
def test_one_changed_bit_is_noticed(tmp_path: Path, where: str) -> None:
    path, found = tmp_path / CHECKPOINT, Searched({300: np.arange(300)}, [], ["a remark"])
    Checkpoint({}, {}, 0.0, found, {"score": torch.full((64,), 0.5)}).write(path)
    content = bytearray(path.read_bytes())
    sought = {
        "order": np.arange(300).tobytes(), "state": torch.full((64,), 0.5).numpy().tobytes(), "header": b"a remark",
    }[where]  # fmt: skip
    content[content.index(sought) + len(sought) - 1] ^= 1
    path.write_bytes(content)
    with pytest.raises(WrongCheckpoint, match="content has changed"):
        Checkpoint.read(path)


def test_no_room_for_a_checkpoint_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path / CHECKPOINT, {}, {}, pause=Pause(seconds=0.0))
    monkeypatch.setattr(atomic, "_sync", lambda path: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with checkpoints.saving(Searched({3: np.arange(3)})):
        pass
    assert list(tmp_path.iterdir()) == []


def test_only_what_ended_early_is_reopened(world: Path, session: Session, store: Store) -> None:
    run = produce(spec_of(world), store, session=session)
    with pytest.raises(StoreError, match="finished; there is nothing to resume"):
        RunFolder(run.path).reopen()
    folder = store.create(spec_of(world))
    folder.start()
    with pytest.raises(StoreError, match="still being made"):
        RunFolder(folder.path).reopen()
    folder.cancel()
    folder.reopen()
    assert json.loads((folder.path / "run.json").read_text())["status"] == "queued"


def test_a_readout_that_the_task_was_given_since_leaves_a_checkpoint_as_it_is(tmp_path: Path) -> None:
    made = {"spec": "a", "base": "b", "finetuned": "c", "data": "d", "definition": "head=e"}
    Checkpoint(made, {}, 0.0, Searched({3: np.arange(3)})).write(tmp_path / CHECKPOINT)
    assert Checkpoints(tmp_path / CHECKPOINT, {**made, "definition": "head=e causal=f"}, {}).restored() is not None
    with pytest.raises(WrongCheckpoint, match="present definition of the task"):
        Checkpoints(tmp_path / CHECKPOINT, {**made, "definition": "head=g causal=f"}, {}).restored()
