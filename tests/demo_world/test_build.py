"""`demo build` end to end in miniature: every stage, resumed, refused, and the same twice."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from demo_world.program import build as engine
from demo_world.program import cached, pretrain, tokens
from demo_world.program.build import Size, build
from demo_world.program.pairs import PairPlan
from demo_world.program.pretrain import Plan
from skillviz.errors import BadData, BadInput
from skillviz.models.checkpoint import read_info
from skillviz.models.frozen_tensors import left_out
from skillviz.models.pair import load_pair
from skillviz.runs.store import Store
from skillviz.tasks.demo_world import STAGES, World, read_world

pytestmark = pytest.mark.slow

SMALL = Plan(texts=200, steps=3, ends=2, batch=8, width=16, layers=2, heads=2, inner=32)
MINIATURE = Size(
    base=SMALL,
    causal=replace(SMALL, layers=1),
    pairs=(
        PairPlan("film-sentiment", "film-sentiment", steps=3, batch=4),
        PairPlan("film-sentiment-causal", "film-sentiment", "causal", "causal", steps=2, batch=4),
    ),
    rows={"train": 40, "validation": 12, "test": 16},
)


def hashes(folder: Path) -> dict[str, str]:
    """sha256 of every weight and data file below a folder."""
    kinds = (".safetensors", ".jsonl", ".yaml", "tokenizer.json")
    files = sorted(path for path in folder.rglob("*") if path.name.endswith(kinds))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole miniature world in it: demo_world and cached_runs."""
    root = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setattr(cached, "SIZES", ("10%", "5%"))
        patch.setattr(cached, "FINER", ("10%", "5%"))
        patch.setattr(cached, "LEARNED", {"steps": 2, "batch_size": 8})
        said: list[tuple[int, int | None, str]] = []
        build(root / "demo_world", root / "cached_runs", size=MINIATURE, advance=lambda *a: said.append(a))
        assert {text.split()[0].rstrip(":") for *_, text in said} >= {"corpus", "base", "causal", "pair", "runs"}
    return root


@pytest.mark.nightly
def test_every_stage_is_made_and_told(root: Path) -> None:
    world = read_world(root / "demo_world")
    assert isinstance(world, World) and world.stages == STAGES and set(world.seconds) == set(STAGES)
    assert world.vocabulary <= tokens.MOST and set(world.parameters) == {"base", "causal"}
    assert [pair.name for pair in world.pairs] == ["film-sentiment", "film-sentiment-causal"]
    accuracy = world.pair("film-sentiment").accuracy
    assert set(accuracy) == {"film-sentiment", "restaurant-sentiment"}
    assert all(s.low <= s.value <= s.high and s.n == 16 for states in accuracy.values() for s in states.values())
    assert {run.id for run in Store(root / "cached_runs").list()} == set(world.runs)
    for task in world.tasks:
        assert (root / task.file).is_file()
    with pytest.raises(BadData, match="film-sentiment"):
        world.task("nothing")


@pytest.mark.nightly
def test_pairs_are_stored_without_their_frozen_tensors_and_open(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    entry = read_world(root / "demo_world").pair("film-sentiment")  # type: ignore[union-attr]
    info = read_info(root / entry.finetuned)
    assert (
        len(left_out(info)) > 5 and info.dtypes == {"F16"} and not (root / entry.finetuned / "tokenizer.json").exists()
    )
    pair = load_pair(entry.base, entry.finetuned, task=f"demo_world/tasks/{entry.task}.yaml")
    assert pair.d == entry.d and not pair.outside and not torch.equal(pair.base, pair.finetuned)
    assert pair.base_info.fingerprint == entry.base_fingerprint
    assert pair.finetuned_info.fingerprint == entry.finetuned_fingerprint


@pytest.mark.nightly
def test_runs_name_their_members_from_the_root(root: Path) -> None:
    for run in Store(root / "cached_runs").list():
        assert run.spec.base.startswith("demo_world/") and run.spec.task.startswith("demo_world/tasks/")
    for run in Store(root / "cached_runs").list():
        assert run.spec.others == ("demo_world/tasks/restaurant-sentiment.yaml",)
        assert run.datasets == ("film-sentiment", "restaurant-sentiment")
    stagewise = [run for run in Store(root / "cached_runs").list() if run.spec.localizer == "stagewise"]
    assert len(stagewise) == 2 and all(set(run.interpolation()["dataset"]) == set(run.datasets) for run in stagewise)
    methods = {run.spec.localizer for run in Store(root / "cached_runs").list()}
    assert methods == {"stagewise", "movement", "random", "learned"}


@pytest.mark.nightly
def test_a_finished_world_is_left_as_it_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = hashes(root)
    monkeypatch.chdir(root)
    monkeypatch.setattr(engine.Build, "corpus", None)
    build(root / "demo_world", root / "cached_runs", size=MINIATURE)
    assert hashes(root) == before


@pytest.mark.nightly
def test_the_same_seed_makes_the_same_world(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cached_runs").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cached, "specs", lambda world, seed: [])
    build(tmp_path / "demo_world", tmp_path / "cached_runs", size=MINIATURE)
    assert hashes(tmp_path / "demo_world") == hashes(root / "demo_world")


@pytest.mark.nightly
def test_it_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(MINIATURE, pairs=MINIATURE.pairs[:1])
    monkeypatch.chdir(tmp_path)
    made = engine.make_pair

    def stopped(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "make_pair", stopped)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "demo_world", tmp_path / "runs", size=small)
    assert read_world(tmp_path / "demo_world").stages == ("corpus", "base")  # type: ignore[union-attr]
    before = hashes(tmp_path / "demo_world" / "base")
    monkeypatch.setattr(engine, "make_pair", made)
    monkeypatch.setattr(cached, "specs", lambda world, seed: [])
    world = build(tmp_path / "demo_world", tmp_path / "runs", size=small)
    assert world.stages == STAGES and hashes(tmp_path / "demo_world" / "base") == before


@pytest.mark.nightly
def test_what_cannot_be_made_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'pairs' needs 'corpus'"):
        build(tmp_path, tmp_path, only="pairs", size=MINIATURE)
    with pytest.raises(BadInput, match="known: corpus, base, pairs, runs"):
        build(tmp_path, tmp_path, only="all", size=MINIATURE)
    with pytest.raises(BadInput, match="seed 0"):
        build(root / "demo_world", root / "cached_runs", seed=1, size=MINIATURE)
    (tmp_path / "world.json").write_text("{")
    with pytest.raises(BadData, match="demo build"):
        read_world(tmp_path)
    assert read_world(tmp_path / "nowhere") is None


@pytest.mark.parametrize("make", [pretrain.masked_model, pretrain.causal_model])
def test_pretraining_learns_and_repeats(make: object) -> None:
    """Ten texts again and again: the loss falls, and a second time it falls by the same numbers."""
    import numpy as np

    plan = replace(SMALL, steps=80, batch=10, masked=0.3, rate=1e-2)
    texts = [np.array([0, 5 + i, 15 + i, 25 + i, 2]) for i in range(10)]

    def losses() -> list[float]:
        model = make(40, plan, 0)  # type: ignore[operator]
        found = [step.loss for step in pretrain.pretraining(model, texts, plan, 0)]
        assert not model.training
        return found

    first = losses()
    assert np.mean(first[-5:]) < 0.7 * np.mean(first[:5])
    assert losses() == first
