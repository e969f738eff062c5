"""Tests of every way in which a run can fail: wrong use, damaged input, Ctrl-C, a full disk, planted errors."""

from __future__ import annotations

import dataclasses
import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from skillviz import atomic
from skillviz.core.localizers import table as localizers
from skillviz.core.localizers.table import LOCALIZERS
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
from skillviz.runs import produce as engine
from skillviz.runs import search
from skillviz.runs.folder import RunFolder
from skillviz.runs.process import Progress
from skillviz.runs.produce import produce
from skillviz.runs.session import Session
from skillviz.runs.store import Store
from tests.runs.tiny_world import D, spec_of
from tests.tiny import tiny_pair, tiny_task

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
