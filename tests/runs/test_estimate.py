"""Tests of the estimate before a run: work is counted from headers and rows, and time is an order of magnitude."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from skillviz.core.formats import order_of_magnitude
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.errors import BadSize
from skillviz.runs.estimate import Facts, decoding_passes, estimate, facts_of, search_seconds
from skillviz.runs.spec import RunSpec
from skillviz.tasks.project import PROJECT
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from tests.runs.test_scoring import other_task
from tests.runs.tiny_world import D, spec_of
from tests.test_torch_free import heavy_after

MINILM = Facts(
    d=10_646_784, parameters=22_713_216, width=384, layers=6, labels=2,
    counts={"train": 6908, "validation": 872, "test": 1821}, sizes=(10_646,),
)  # fmt: skip


def spec(localizer: str = "stagewise", **changes: object) -> RunSpec:
    return RunSpec(base="minilm", finetuned="f", task="sst2", localizer=localizer, **changes)  # type: ignore[arg-type]


def test_a_run_that_was_measured_has_its_order_of_magnitude() -> None:
    """MiniLM on two cores took 227 s without other load, and twice as long with it."""
    told = estimate(spec(), MINILM)
    assert 227 / 2 < told.seconds < 3 * 227 and told.time == "minutes"
    assert "minutes" in told.words() and "GiB" in told.words()


def test_orders_of_magnitude() -> None:
    words = [order_of_magnitude(seconds) for seconds in (3, 60, 300, 3600, 20_000, 10**6)]
    assert words == ["seconds", "about a minute", "minutes", "about an hour", "hours", "days"]


@pytest.mark.parametrize("name", LOCALIZERS)
def test_more_work_takes_longer(name: str) -> None:
    one = estimate(spec(name), MINILM)
    assert estimate(spec(name), dataclasses.replace(MINILM, d=8 * MINILM.d)).seconds > one.seconds
    sizes = dataclasses.replace(MINILM, sizes=(10_646, 1_064))
    assert estimate(spec(name), sizes).seconds > one.seconds
    searched = search_seconds(spec(name), MINILM)
    assert (search_seconds(spec(name), sizes) > searched) == (not LOCALIZERS[name].is_one_search and searched > 0)
    assert estimate(spec(name), dataclasses.replace(MINILM, parameters=10**9)).bytes > one.bytes


def test_options_count() -> None:
    usual = search_seconds(spec(), MINILM)
    assert search_seconds(spec(steps=100), MINILM) == pytest.approx(2 * usual)
    assert search_seconds(spec(options={"batch_size": 64}), MINILM) < 0.6 * usual
    assert search_seconds(spec(options={"steps": "many"}), MINILM) == usual
    small = estimate(spec("linearized", options={"jacobian_gib": 0.05}), MINILM)
    assert small.bytes < estimate(spec("linearized"), MINILM).bytes


def test_each_option_and_new_token_is_a_pass() -> None:
    one, four = (search_seconds(spec(), dataclasses.replace(MINILM, sequences=n)) for n in (1, 4))
    assert four == pytest.approx(4 * one)
    assert decoding_passes(dataclasses.replace(MINILM, new_tokens=25)) == 4
    assert 2 < load(task(PROJECT / "docs" / "examples" / "choose-domain.yaml")).options <= 5


def test_other_tasks_and_the_grid_take_their_time() -> None:
    wider = dataclasses.replace(MINILM, counts={**MINILM.counts, "others": 1000})
    bare, also = estimate(spec(), MINILM).seconds, estimate(spec(others=("imdb",)), wider).seconds
    forward = (also - bare) / 4000
    assert forward > 0
    grid = estimate(spec(others=("imdb",), interpolation=True), wider).seconds - also
    assert grid == pytest.approx(21 * 2821 * forward)


@pytest.mark.slow
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
