"""Tests of a run cut short: it resumes from its checkpoint with the same regions and history, and repeats no step."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch

from skillviz import atomic
from skillviz.core.localizers.record import number
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.errors import StoreError, WrongCheckpoint
from skillviz.models import state_file
from skillviz.models.state_file import Pause
from skillviz.runs import plan
from skillviz.runs import produce as engine
from skillviz.runs.checkpoint import CHECKPOINT, Checkpoint, Checkpoints
from skillviz.runs.process import Progress
from skillviz.runs.produce import carry_on, produce
from skillviz.runs.search import Searched
from tests.core.test_recordings import Repeated
from tests.refused import refuses
from tests.runs.tiny_world import Region, Run, RunFolder, RunSpec, Session, Store, failed_checks, graft_of_run, spec_of
from tests.tiers import USUAL, first

OPTIONS: dict[str, dict[str, Any]] = {"learned": {"lr": 1e4, "base_share": 0.01}, "linearized": {"examples": 64}}
OPTIONS["expression"] = {"expression": {"difference": [{"layers": [0]}, {"kinds": ["MLP in", "MLP out"]}]}}


def asked(world: Path, name: str, **changes: Any) -> RunSpec:
    return spec_of(
        world,
        localizer=name,
        **{"sizes": ("5%", "2%"), "steps": 5, "batch_size": 16, "options": OPTIONS.get(name, {}), **changes},
    )


def ctrl_c(told: int, phase: str = "search") -> Callable[[Progress], None]:
    """Return a listener that ends a run once a phase has reported this many steps."""
    heard = count(1)

    def stop(progress: Progress) -> None:
        if progress.phase == phase and progress.done and next(heard) == told:
            raise KeyboardInterrupt

    return stop


def interrupted(spec: RunSpec, store: Store, session: Session | None, told: int, phase: str = "search") -> RunFolder:
    """Return the folder of a run that Ctrl-C ended after a phase had reported this many steps."""
    listed = [run.id for run in store.list()]
    with pytest.raises(KeyboardInterrupt) as caught:
        produce(spec, store, ctrl_c(told, phase), session)
    (entry,) = store.unfinished()
    folder = RunFolder(entry.path)
    assert (folder.record.status, folder.record.error, [run.id for run in store.list()]) == ("cancelled", None, listed)
    assert f"jobs resume {entry.id}" in caught.value.__notes__[0]
    assert len((folder.work / "events.jsonl").read_text().splitlines()) > told
    return folder


def resumed(folder: RunFolder, session: Session | None = None) -> Run:
    folder.reopen()
    return carry_on(folder, session=session)


def same(one: Run, other: Run) -> None:
    columns = ["localizer", "target", "step", "loss", "size", "added", "removed"]
    pd.testing.assert_frame_equal(one.history()[columns], other.history()[columns])
    assert np.array_equal(one.ranking(), other.ranking()) and one.region() == other.region()
    files = ("predictions.parquet", "curve.parquet", "layers.parquet")  # the region's header has the run's name
    kept = [(run.record.sizes, run.record.notes, [run.record.files[name] for name in files]) for run in (one, other)]
    assert kept[0] == kept[1] and failed_checks(other) == []


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("name", first(LOCALIZERS, ("stagewise", "learned").__contains__, USUAL.__contains__))
def test_every_localizer_goes_on_where_it_was_cut(world: Path, session: Session, store: Store, name: str) -> None:
    spec = asked(world, name)
    whole = produce(spec, Store(store.root / "whole"), session=session)
    steps = len(whole.history())
    for told in {1, 3, steps - 1, steps} & set(range(1, steps + 1)):
        folder = interrupted(spec, store, session, told)
        assert (folder.work / CHECKPOINT).is_file()
        run = resumed(folder, session)
        same(whole, run)
        assert (
            set(run.history().groupby("target")["seconds"].is_monotonic_increasing),
            [p.name for p in (run.path / "work").iterdir()],
        ) == ({True}, ["log.txt"]), "the checkpoint is gone"
        store.delete(run.id)


def test_a_finished_search_is_not_made_again(
    world: Path, session: Session, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = interrupted(asked(world, "stagewise"), store, session, 7)  # the second step of the second size
    steps: list[tuple[int, int]] = []
    real = engine._Production.on_step
    monkeypatch.setattr(
        engine._Production, "on_step", lambda self, s: (steps.append((s.target, s.step.step)), real(self, s))[1]
    )
    assert (steps, resumed(folder, session).history()[["target", "step"]].values.tolist()) == (
        [(88, 3), (88, 4), (88, 5)],
        [[t, s] for t in (222, 88) for s in range(1, 6)],
    )


def test_the_search_is_kept_when_the_scoring_is_cut(world: Path, session: Session, store: Store) -> None:
    spec = asked(world, "stagewise")
    whole = produce(spec, Store(store.root / "whole"), session=session)
    folder = interrupted(spec, store, session, 5, phase="evaluate")  # both states on both splits are stored
    assert Checkpoint.read(folder.work / CHECKPOINT).state is None and list(folder.path.glob("*.parquet")), (
        "incomplete, never listed"
    )
    folder.reopen()
    assert not list(folder.path.glob("*.parquet"))
    same(whole, carry_on(folder, session=session))


@pytest.mark.nightly
def test_cut_again_and_again(world: Path, session: Session, store: Store) -> None:
    spec = asked(world, "frank-wolfe")
    folder = interrupted(spec, store, session, 2)
    for _ in range(3):
        folder.reopen()
        refuses(KeyboardInterrupt, None, carry_on, folder, ctrl_c(2), session)
    same(produce(spec, Store(store.root / "whole"), session=session), resumed(folder, session))


def test_an_error_within_a_step_leaves_the_checkpoint_before_it(
    world: Path, session: Session, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(state_file.ENVIRONMENT, "0")
    monkeypatch.setattr(state_file, "SPARED", 0)
    spec = asked(world, "stagewise")
    flat = type(session.pair(spec).flat)
    calls = chain([flat.zero_grad] * 4, repeat(Mock(side_effect=MemoryError("planted"))))
    with monkeypatch.context() as patched, pytest.raises(MemoryError):
        patched.setattr(flat, "zero_grad", lambda self: next(calls)(self))
        produce(spec, store, session=session)
    (entry,) = store.unfinished()
    kept = Checkpoint.read(entry.path / "work" / CHECKPOINT)
    assert (entry.record.error.kind, int(kept.state["step"]), len(kept.searched.history)) == ("out of memory", 4, 4)
    same(produce(spec, Store(store.root / "whole"), session=session), resumed(RunFolder(entry.path), session))


@pytest.fixture
def region_file(world: Path, session: Session, tmp_path: Path) -> Callable[[int], str]:
    """Return what saves the first entries of the pair's table as a region and returns the file's path."""
    path, shapes = tmp_path / "base.safetensors", session.pair(asked(world, "learned")).table.shapes
    return lambda entries: Region.from_flat(np.arange(entries), shapes).save(path) or str(path)


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("name", ["learned", "learned-ranked"])
def test_a_mask_that_starts_from_a_region_file_goes_on_where_it_was_cut(
    world: Path, session: Session, store: Store, region_file: Callable[[int], str], name: str
) -> None:
    spec = asked(world, name, options={"lr": 1e4, "base": region_file(120)})
    same(
        produce(spec, Store(store.root / "whole"), session=session),
        resumed(interrupted(spec, store, session, 3), Session()),
    )


def test_a_mask_does_not_go_on_from_another_region_file(
    world: Path, session: Session, store: Store, region_file: Callable[[int], str]
) -> None:
    folder = interrupted(asked(world, "learned", options={"lr": 1e4, "base": region_file(120)}), store, session, 3)
    region_file(121)
    refuses(WrongCheckpoint, "present region file", resumed, folder, session)


def test_other_data_are_refused_in_a_sentence(world: Path, session: Session, store: Store, tmp_path: Path) -> None:
    own = shutil.copytree(world, tmp_path / "world")
    folder = interrupted(asked(own, "stagewise"), store, session, 2)
    (own / "train.jsonl").write_text("".join((own / "train.jsonl").read_text().splitlines(keepends=True)[:-2]))
    refuses(WrongCheckpoint, r"^(?=.*present data)[^\n]*delete checkpoint\.safetensors[^\n]*\Z", resumed, folder)
    assert RunFolder(folder.path).record.error.kind == "WrongCheckpoint"


STAMP = {"spec": "a", "base": "b", "finetuned": "c", "data": "d", "region": "", "definition": "head=e"}
FOUND = Searched({300: np.arange(300)}, [{"target": 300, "step": 1, "loss": 0.1, "seconds": 1.5}], ["a remark"])


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path, state = tmp_path / CHECKPOINT, {"step": number(4), "score": torch.full((64,), 0.5)}
    Checkpoint(STAMP, {"device": "cpu (1 threads)"}, 3.5, FOUND, state).write(path)
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        *(({part: "other"}, "does not match the present") for part in STAMP),
        ({"definition": "head=g causal=f"}, "present definition of the task"),
    ],
    ids=str,
)
def test_every_part_of_the_stamp_counts(written: Path, change: dict[str, str], words: str) -> None:
    refuses(WrongCheckpoint, words, Checkpoints(written, STAMP | change, {"device": "cpu (1 threads)"}).restored)


@pytest.mark.parametrize("definition", ["head=e", "head=e causal=f"], ids=["the same task", "a readout given since"])
def test_a_checkpoint_comes_back_as_it_was(written: Path, definition: str) -> None:
    stamp = STAMP | {"definition": definition}
    kept = Checkpoints(written, stamp, {"device": "cpu (1 threads)"}).restored()
    assert kept.searched.history == FOUND.history
    assert kept.searched.notes == FOUND.notes
    assert kept.seconds == 3.5
    assert int(kept.state["step"]) == 4
    assert np.array_equal(kept.searched.orders[300], np.arange(300))
    assert torch.equal(kept.state["score"], torch.full((64,), 0.5))
    assert (
        "resumed on cuda (GPU)" in Checkpoints(written, stamp, {"device": "cuda (GPU)"}).restored().searched.notes[-1]
    )


def flipped(content: bytes, sought: bytes) -> bytes:
    last = content.index(sought) + len(sought) - 1
    return content[:last] + bytes([content[last] ^ 1]) + content[last + 1 :]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda content: content[:-5], "cannot be read"),
        (lambda content: b"x" * 40, "cannot be read"),
        (lambda content: flipped(content, np.arange(300).tobytes()), "content has changed"),
        (lambda content: flipped(content, np.full(64, 0.5, np.float32).tobytes()), "content has changed"),
        (lambda content: flipped(content, b"a remark"), "content has changed"),
    ],
    ids=["cut", "other", "a bit of the order", "a bit of the state", "a bit of the header"],
)
def test_a_damaged_file_is_one_sentence(written: Path, damage: Callable[[bytes], bytes], words: str) -> None:
    written.write_bytes(damage(written.read_bytes()))
    refuses(WrongCheckpoint, rf"^[^\n]*{words}[^\n]*\Z", Checkpoint.read, written)


def test_no_room_for_a_checkpoint_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "_sync", Mock(side_effect=OSError(28, "No space left on device")))
    with Checkpoints(tmp_path / CHECKPOINT, {}, {}, pause=Pause(seconds=0.0)).saving(Searched({3: np.arange(3)})):
        pass
    assert list(tmp_path.iterdir()) == []


def test_only_what_ended_early_is_reopened(world: Path, session: Session, store: Store) -> None:
    run, folder = produce(spec_of(world), store, session=session), store.create(spec_of(world))
    folder.start()
    for path, words in ((run.path, "finished; there is nothing to resume"), (folder.path, "still being made")):
        refuses(StoreError, words, RunFolder(path).reopen)
    folder.cancel()
    folder.reopen()
    assert RunFolder(folder.path).record.status == "queued"


# Lean mode, recorded passes and several processes. A recording's kernels are here the pass itself, started again
# (tests/core/test_recordings.py); tests/jobs/test_processes.py has a test on a GPU.


FEW = {"localizer": "stagewise", "steps": 4, "batch_size": 16}
LEAN = {"lean": True, "dtype": "own"}


@pytest.mark.slow
def test_a_lean_run_is_the_ordinary_one(world: Path, store: Store) -> None:
    own = {**FEW, "sizes": ("5%", "1%"), "options": {"candidate_share": 0.2}, "interpolation": True}
    ordinary, lean = (produce(spec_of(world, **own, **mode), store) for mode in ({}, LEAN))
    same(ordinary, lean)
    assert store.verify(lean.id) == [] and failed_checks(lean) == [] and lean.record.metrics == ordinary.record.metrics
    assert [
        name
        for name in ("predictions", "curve", "layers", "interpolation", "complement")
        if not getattr(lean, name)().equals(getattr(ordinary, name)())
    ] == []
    (graft, _), (other, _) = graft_of_run(lean), graft_of_run(ordinary)
    assert (
        graft.region,
        [name for name in graft.region.indices if not torch.equal(graft.values[name], other.values[name])],
    ) == (other.region, [])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({**FEW, **LEAN, "localizer": "frank-wolfe"}, marks=pytest.mark.slow, id="lean"),
        pytest.param({**FEW, "cuda_graphs": True}, marks=pytest.mark.nightly, id="recorded"),
    ],
)
def test_a_search_in_another_mode_resumes_where_it_stopped(
    world: Path, store: Store, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    monkeypatch.setattr(plan, "refused_graphs", lambda *of: None)
    monkeypatch.setattr(engine, "Recordings", Repeated)
    spec = spec_of(world, **changes)
    whole = produce(spec, Store(store.root / "whole"))
    again = resumed(interrupted(spec, store, None, 2))
    same(whole, again)
    assert len(again.history()) == 4 and again.predictions().equals(whole.predictions())
    if spec.cuda_graphs:
        assert (
            whole.spec.cuda_graphs and whole.region().iou(produce(spec_of(world, **FEW), store).region()) > 0.98
        )  # float32: sums of other lengths


@pytest.mark.nightly
@pytest.mark.parametrize("mode", [LEAN, {}], ids=["lean", "plain"])
def test_two_processes_find_the_region_of_one(world: Path, store: Store, mode: dict[str, Any]) -> None:
    spec = spec_of(world, **{**FEW, **mode, "batch_size": 15}, data_parallel=2)
    alone, words = produce(spec, store), spec.command().split()[3:]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "skillviz"]
    done = subprocess.run(
        [*command, *words, "--runs-dir", store.root / "two"],
        capture_output=True, text=True, timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},  # says where a process aborted
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (together,) = Store(store.root / "two").list()
    assert together.spec.key() == alone.spec.key()
    assert together.region() == alone.region()
    assert together.ranking().tolist() == alone.ranking().tolist()
    assert together.history()["loss"].tolist() == alone.history()["loss"].tolist()
