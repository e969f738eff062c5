"""Time and memory told before a run starts: the right order of magnitude, and better once runs are there."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.errors import BadSize
from skillviz.runs.estimate import Facts, estimate, facts_of
from skillviz.runs.record import Architecture, RunRecord, TaskNote
from skillviz.runs.spec import RunSpec
from tests.runs.test_scoring import other_task
from tests.runs.tiny_world import D, spec_of
from tests.test_torch_free import heavy_after

MINILM = Facts(
    d=10_646_784, parameters=22_713_216, width=384, layers=6, labels=2,
    counts={"train": 6908, "validation": 872, "test": 1821}, sizes=(10_646,),
)  # fmt: skip


def spec(localizer: str = "stagewise", **changes: object) -> RunSpec:
    return RunSpec(base="minilm", finetuned="f", task="sst2", localizer=localizer, **changes)  # type: ignore[arg-type]


def record(seconds: dict[str, float], **changes: object) -> RunRecord:
    task = TaskNote(name="sst2", labels=("a", "b"), counts=dict(MINILM.counts))
    built = Architecture(model_type="bert", known=True, d=MINILM.d, layers=6)
    said = {"device": "cpu (2 threads)", "task": task, "architecture": built, "sizes": (10_646,), "seconds": seconds}
    return RunRecord(**{
        "run_id": "x", "spec": spec(), "key": "", "status": "finished", "created": "", **said, **changes,
    })  # fmt: skip


def test_the_run_that_was_measured_is_foretold() -> None:
    """The shipped stagewise run on MiniLM took 45 s for the ends, 141 s for the search, 41 s for the grafts."""
    found = estimate(spec(), MINILM)
    assert found.phases["predict"] == pytest.approx(44.5, rel=0.3)
    assert found.phases["search"] == pytest.approx(140.6, rel=0.3)
    assert found.phases["evaluate"] == pytest.approx(40.9, rel=0.3)
    assert 0.5e9 < found.bytes < 2e9 and "rough" in found.words() and "GiB" in found.words()


@pytest.mark.parametrize("name", LOCALIZERS)
def test_more_work_takes_longer(name: str) -> None:
    one = estimate(spec(name), MINILM)
    assert estimate(spec(name), dataclasses.replace(MINILM, d=8 * MINILM.d)).seconds > one.seconds
    two = estimate(spec(name), dataclasses.replace(MINILM, sizes=(10_646, 1_064)))
    assert two.phases["evaluate"] > one.phases["evaluate"]
    assert (two.phases["search"] > one.phases["search"]) == (not LOCALIZERS[name].is_one_search)
    assert estimate(spec(name), dataclasses.replace(MINILM, parameters=10**9)).bytes > one.bytes
    assert estimate(spec(name), dataclasses.replace(MINILM, device="cuda")).phases["search"] < one.phases["search"] + 1


def test_options_count() -> None:
    usual = estimate(spec(), MINILM).phases["search"]
    assert estimate(spec(steps=100), MINILM).phases["search"] == pytest.approx(2 * usual)
    assert estimate(spec(options={"batch_size": 64}), MINILM).phases["search"] < 0.6 * usual
    assert estimate(spec(options={"steps": "many"}), MINILM).phases["search"] == usual
    small = estimate(spec("linearized", options={"jacobian_gib": 0.05}), MINILM)
    assert small.bytes < estimate(spec("linearized"), MINILM).bytes


def test_finished_runs_are_the_measure() -> None:
    rough = estimate(spec(), MINILM)
    slow = record({name: 3 * rough.phases[name] for name in ("search", "evaluate")})
    found = estimate(spec(), MINILM, [slow])
    assert found.runs == 1 and found.phases["search"] == pytest.approx(3 * rough.phases["search"], rel=0.05)
    assert "based on 1 earlier run" in found.words()
    elsewhere = record({"search": 1.0, "evaluate": 1.0}, device="cuda (H100)")
    assert estimate(spec(), MINILM, [elsewhere, record({})]).runs == 0
    other = record({"search": 1.0, "evaluate": 1.0}, spec=spec().model_copy(update={"base": "other"}))
    assert estimate(spec(), MINILM, [slow, other]).phases == found.phases, "runs of the same base first"


def test_other_tasks_and_the_grid_take_their_time() -> None:
    wider = dataclasses.replace(MINILM, counts={**MINILM.counts, "others": 1000})
    bare, also = estimate(spec(), MINILM), estimate(spec(others=("imdb",)), wider)
    forward = bare.phases["predict"] / 2 / (872 + 1821)
    assert also.phases["predict"] == bare.phases["predict"] and also.phases["search"] == bare.phases["search"]
    assert also.phases["evaluate"] - bare.phases["evaluate"] == pytest.approx(4 * 1000 * forward), "their ends too"
    grid = estimate(spec(others=("imdb",), interpolation=True), wider).phases["evaluate"] - also.phases["evaluate"]
    assert grid == pytest.approx(21 * 2821 * forward)


def test_facts_come_from_headers_and_data_without_torch(world: Path, tmp_path: Path) -> None:
    facts = facts_of(spec_of(world, sizes=("5%", "10"), max_train=40))
    assert (facts.d, facts.layers, facts.width, facts.labels, facts.sizes) == (D, 2, 16, 2, (222, 10))
    assert facts.counts == {"train": 40, "validation": 32, "test": 32} and 4 < facts.tokens < 30
    assert facts.parameters > D and estimate(spec_of(world), facts).seconds < 60
    other = other_task(tmp_path, "near")
    assert facts_of(spec_of(world, others=(str(other),), max_test=9)).counts["others"] == 9
    with pytest.raises(BadSize):
        facts_of(spec_of(world, sizes=("0",)))
    assert heavy_after("skillviz.runs.estimate") == {}
