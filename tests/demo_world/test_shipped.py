"""The demo world that ships: it is there, and what is said of it is so."""

from __future__ import annotations

import shutil
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest

from demo_world.program import cached, corpus, tokens
from demo_world.program.examples import taken_texts, write_task
from demo_world.program.pairs import PAIRS
from demo_world.program.pretrain import Plan
from demo_world.program.world import LARGE, TASKS, DemoTask
from skillviz.core.intervals import metric_difference
from skillviz.models.checkpoint import read_info
from skillviz.models.frozen_tensors import filled
from skillviz.runs.store import Store
from skillviz.tasks import registry
from skillviz.tasks.demo_world import MAIN, STAGES, World, read_world, shipped_world
from skillviz.tasks.project import project_root
from skillviz.tasks.splits import load
from tests.scripts import script

MOST_BYTES, MOST_SECONDS = 120_000_000, 2 * 60 * 60  # 75 MB of world and runs, 45 MB of studies


@pytest.fixture(scope="module")
def world() -> World:
    found = read_world()
    assert found is not None, "the demo world does not ship here; `git checkout -- demo_world`, or build it"
    return found


@pytest.fixture(scope="module")
def store() -> Store:
    return Store(project_root() / "cached_runs")


@pytest.fixture(scope="module")
def page() -> ModuleType:
    """docs/demo_world.py."""
    return script("docs/demo_world.py")


def test_it_was_built_to_its_end_in_time_and_is_small_enough(world: World) -> None:
    assert world.stages == STAGES and sum(world.seconds.values()) <= MOST_SECONDS
    shipped = chain(shipped_world().rglob("*"), (project_root() / "cached_runs").rglob("*"))
    assert sum(path.stat().st_size for path in shipped if path.is_file() and "local" not in path.parts) <= MOST_BYTES


def test_it_has_the_families_and_partners(world: World) -> None:
    own = [task for task in world.tasks if not task.shifted]
    families = {family: [task.name for task in own if task.family == family] for family in {t.family for t in own}}
    assert len(own) >= 8 and len(families) == 4 and all(len(names) >= 2 for names in families.values())
    assert len([task for task in own if task.partner]) >= 3
    assert world.vocabulary <= tokens.MOST and 900_000 <= world.parameters["base"] <= 2_000_000
    assert {pair.name for pair in world.pairs} == {plan.name for plan in PAIRS}


@pytest.mark.cases(4, 4)
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_grammar_still_writes_its_data(task: DemoTask, world: World, tmp_path: Path) -> None:
    write_task(task, tmp_path / "tasks", world.seed)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    for path in written:
        assert path.read_bytes() == (shipped_world() / path.relative_to(tmp_path)).read_bytes(), path.name
    assert len(written) == 1 + len(task.sizes)
    assert (
        world.task(task.name).fingerprint
        == load(registry.task(shipped_world() / f"tasks/{task.name}.yaml")).fingerprint
    )


@pytest.mark.nightly
def test_the_grammar_still_writes_the_large_tasks(world: World, tmp_path: Path) -> None:
    read = corpus.sentences(world.seed, Plan().texts)
    taken = taken_texts(world.seed, read)
    for task in LARGE:
        found = write_task(task, tmp_path / "tasks", world.seed, taken)
        assert len(task.columns) == 2 or read.isdisjoint(row.texts[0] for row in found["test"])
        assert (
            world.task(task.name).fingerprint
            == load(registry.task(shipped_world() / f"tasks/{task.name}.yaml")).fingerprint
        )
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert path.read_bytes() == (shipped_world() / path.relative_to(tmp_path)).read_bytes(), path.name


def test_a_base_knows_something_and_its_member_clearly_more(world: World) -> None:
    for pair in world.pairs:
        chance = 1 / len(world.task(pair.task).labels)
        before, after = (pair.accuracy[pair.task][state] for state in ("pretrained", "finetuned"))
        if pair.readout == "prompt":
            assert before.low > chance, pair.name
        assert after.value - before.value >= 0.05 and after.low > before.value and after.value > before.high, pair.name


def test_members_are_the_ones_that_the_runs_are_of(world: World, store: Store) -> None:
    root = project_root()
    runs = {run.id: run.record for run in store.list()}
    assert world.runs and set(world.runs) <= runs.keys()
    members = {(pair.base_fingerprint, pair.finetuned_fingerprint) for pair in world.pairs}
    for pair in world.pairs:
        base = read_info(root / pair.base)
        assert base.fingerprint == pair.base_fingerprint
        assert filled(read_info(root / pair.finetuned), base).fingerprint == pair.finetuned_fingerprint
    told = [runs[name] for name in world.runs]
    assert {(r.base.fingerprint, r.finetuned.fingerprint) for r in told if r.base and r.finetuned} == members
    assert {record.key for record in told} == {spec.key() for spec in cached.specs(world, world.seed)}
    assert [record for record in told if record.spec.finetuned.endswith(MAIN)]


def test_a_model_of_few_examples_shows_the_effect(world: World, store: Store) -> None:
    """What it is there for: 1% of the parameters, better calibrated, where top movement and a random region fail."""
    records = {name: store.open(name).record for name in world.runs}
    of_main = [record for record in records.values() if record.spec.finetuned.endswith(MAIN)]
    few = [record for record in of_main if record.spec.sizes[0] == cached.MAIN_SIZES[0]]
    assert {record.spec.localizer for record in few} == {"stagewise", "movement", "random"}
    shares = {
        record.spec.localizer: record.metrics["test"].recovered for record in few if record.spec.seed == world.seed
    }
    every_mask = [record.metrics["test"].recovered for record in few if record.spec.localizer == "stagewise"]
    assert len(every_mask) == 3 and all(gain and gain.low > 0.9 for gain in every_mask)
    searched, moved, drawn = (shares[name] for name in ("stagewise", "movement", "random"))
    assert searched and moved and drawn and {record.metrics["test"].n for record in few} == {4000}
    assert searched.value >= 0.95 and searched.low > moved.high and drawn.high < 0.05
    run = store.open(next(i for i, r in records.items() if r in few and r.spec.localizer == "stagewise"))
    (_, labels, graft), (_, _, tuned) = (run.logits(state) for state in ("grafted", "finetuned"))
    assert metric_difference(graft, tuned, labels, "ece").high < 0


@pytest.mark.nightly
def test_the_guides_tables_are_those_of_the_world(page: ModuleType, tmp_path: Path) -> None:
    copy = tmp_path / "demo-world.md"
    shutil.copy(page.PAGE, copy)
    page.main(copy)
    assert copy.read_text(encoding="utf-8") == page.PAGE.read_text(encoding="utf-8")
