"""Tests of hand-made regions as runs: their sources are recorded, and impossible ones refused before any compute."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from skillviz.core.parameters import graftable
from skillviz.core.region import Region
from skillviz.core.region_expression import region_of
from skillviz.errors import BadInput, RunNotFound
from skillviz.runs.checkpoint import CHECKPOINT
from skillviz.runs.folder import RunFolder
from skillviz.runs.plan import in_full, resolved_expression
from skillviz.runs.process import Progress
from skillviz.runs.produce import carry_on, produce
from skillviz.runs.run import RANKING, REGION, Run
from skillviz.runs.session import Session
from skillviz.runs.store import Library, Store
from tests.fake_run import fake_run
from tests.runs.test_checkpoint import same
from tests.runs.tiny_world import spec_of
from tests.test_torch_free import heavy_after


@pytest.fixture(scope="module")
def source(world: Path, session: Session, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a movement run of two sizes on the tiny pair."""
    return produce(spec_of(world, sizes=("5%", "20%")), Store(tmp_path_factory.mktemp("source")), session=session)


@pytest.fixture
def library_of(source: Run, store: Store) -> Store:
    """Return a store with a copy of the run."""
    shutil.copytree(source.path, store.root / source.id)
    return store


def test_a_run_says_what_its_region_is_made_of(world: Path, session: Session, source: Run, library_of: Store) -> None:
    expression = {"union": [{"run": source.id[:-2], "size": 400}, {"kinds": ["value"], "layers": [0], "biases": True}]}
    spec = spec_of(world, localizer="expression", options={"expression": expression})
    run = produce(spec, library_of, session=session)
    expected = region_of(expression, session.pair(source.spec).table, lambda name, size: source.cut(size))
    assert run.region() == expected and run.record.size == expected.size and 400 <= expected.size <= 416
    assert f"-expression-{expected.size}-s0-" in run.id
    assert all(check.passed for check in run.record.checks)
    header = Region.header(run.path / REGION)
    assert header["expression"] == {
        "union": [{"run": source.id, "size": 400}, {"layers": [0], "kinds": ["value"], "biases": True}]
    }
    (told,) = header["made_of"]
    assert told["run"] == source.id and told["finetuned_fingerprint"] == source.record.finetuned.fingerprint
    for name, file in (("region", REGION), ("ranking", RANKING)):
        assert told[f"{name}_sha256"] == hashlib.sha256((source.path / file).read_bytes()).hexdigest()
    assert any(source.id in note and told["region_sha256"][:12] in note for note in run.record.notes)
    assert not any("size asked for" in note for note in run.record.notes)


def test_a_planted_region_changes_what_is_named(world: Path, session: Session, source: Run, library_of: Store) -> None:
    """The hash belongs to the file that was read, not to a copy elsewhere."""
    table = session.pair(source.spec).table
    found = resolved_expression({"expression": {"run": source.id}}, table, Library([library_of]))
    other = fake_run(Store(library_of.root), localizer="random", layers=2, width=16, sizes=("5%",), steps=2)
    assert (
        resolved_expression({"expression": {"run": other.id}}, _table_of(other), Library([library_of])).sources
        != found.sources
    )


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize("phase", ["search", "evaluate"])
def test_a_resumed_job_gives_the_same_region(
    world: Path, session: Session, source: Run, library_of: Store, phase: str
) -> None:
    options = {"expression": {"difference": [{"layers": [1]}, {"run": source.id}]}}
    spec = spec_of(world, localizer="expression", options=options)

    def stop(progress: Progress) -> None:
        if progress.phase == phase and progress.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        produce(spec, library_of, stop, session)
    (cut,) = library_of.unfinished()
    folder = RunFolder(cut.path)
    assert (folder.work / CHECKPOINT).is_file()
    folder.reopen()
    same(produce(spec, library_of, session=session), carry_on(folder, session=session))


@pytest.mark.cases(6, 5)
@pytest.mark.parametrize(
    ("expression", "error", "words"),
    [
        (None, BadInput, "needs its option"),
        ("layers 0", BadInput, "not JSON"),
        ([], BadInput, "an object such as"),
        ({"layer": [0]}, BadInput, "'layer' is not a part of a region expression"),
        ({"layers": [9]}, BadInput, "no layer '9'; it has 0 to 1"),
        ({"parameters": ["pooler.dense.weight"]}, BadInput, "no parameter 'pooler.dense.weight'"),
        ({"layers": []}, BadInput, "without entries"),
        ({"intersection": [{"layers": [0]}, {"layers": [1]}]}, BadInput, "without entries"),
        ({"run": "no-such-run"}, RunNotFound, "no run 'no-such-run'"),
        ({"run": "OTHER"}, BadInput, "another architecture"),
        ({"run": "SOURCE", "size": 10**6}, BadInput, "entries; 1,000,000 were requested"),
    ],
)
def test_what_cannot_be_made_is_said_before_any_compute(
    world: Path, source: Run, library_of: Store, expression: Any, error: type[Exception], words: str
) -> None:
    other = fake_run(library_of, layers=3, width=8, sizes=("5%",), steps=2)
    if isinstance(expression, dict) and "run" in expression:
        expression["run"] = {"OTHER": other.id, "SOURCE": source.id}.get(expression["run"], expression["run"])
    before, session = sorted(library_of.root.iterdir()), Session()
    options = {} if expression is None else {"expression": expression}
    with pytest.raises(error, match=words) as raised:
        produce(spec_of(world, localizer="expression", options=options), library_of, session=session)
    assert "pair" not in session.values, "the models were loaded"
    assert sorted(library_of.root.iterdir()) == before
    assert "\n" not in str(raised.value) and str(raised.value).endswith(".")


def test_the_regions_of_runs_are_not_given_by_hand(world: Path, store: Store) -> None:
    with pytest.raises(BadInput, match="name runs in the region expression"):
        produce(spec_of(world, localizer="expression", options={"expression": {}, "stored": "x"}), store)


def test_runs_are_named_in_full_wherever_they_stand(source: Run, library_of: Store) -> None:
    short = {"run": source.id[:12]}
    nested = {"difference": [{"union": [short, {"layers": [0]}]}, {**short, "size": 3}]}
    full = {"run": source.id}
    wanted = {"difference": [{"union": [full, {"layers": [0]}]}, {**full, "size": 3}]}
    assert in_full(nested, Library([library_of])) == wanted


@pytest.mark.slow
def test_it_needs_no_torch() -> None:
    assert heavy_after("skillviz.runs.plan") == {}


def _table_of(run: Run) -> Any:
    return graftable("bert", run.region().shapes)
