"""Tests of the memory and the work of a run, known before it starts from headers and rows."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.errors import BadSize
from skillviz.runs.memory import Facts, cost_of, facts_of, peak_bytes
from skillviz.runs.pace import work_words
from skillviz.runs.session import Session
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


def work(run: RunSpec, facts: Facts = MINILM) -> str:
    return work_words(run, cost_of(run, facts), facts.counts, facts.sizes)


@pytest.mark.parametrize("name", LOCALIZERS)
def test_a_larger_model_takes_more_memory(name: str) -> None:
    usual = peak_bytes(spec(name), MINILM)
    assert peak_bytes(spec(name), dataclasses.replace(MINILM, parameters=10**9)) > usual


def test_the_memory_for_gradients_is_an_option() -> None:
    small = peak_bytes(spec("linearized", options={"jacobian_gib": 0.05}), MINILM)
    assert small < peak_bytes(spec("linearized"), MINILM)
    assert peak_bytes(spec(options={"steps": "many"}), MINILM) == peak_bytes(spec(), MINILM), "reported elsewhere"


def test_the_work_is_counted_in_examples() -> None:
    """Both models and the graft's two states on 2,693 examples; a second size is a search and two states more."""
    scored = 4 * (872 + 1821)
    assert work(spec()) == f"1 search with 6,400 gradients of examples, and {scored:,} examples to score"
    two = dataclasses.replace(MINILM, sizes=(10_646, 1_064))
    scored += 2 * (872 + 1821)
    assert work(spec(), two) == f"2 searches with 6,400 gradients of examples each, and {scored:,} examples to score"
    assert work(spec("movement"), two).startswith("1 search with no gradients"), "one ranking has all sizes"
    assert "12,800 gradients" in work(spec(steps=100)) and "3,200 gradients" in work(spec(options={"batch_size": 64}))


def test_nulls_other_tasks_and_the_grid_are_work_too() -> None:
    assert work(spec(nulls="shuffled", null_draws=2)).startswith("3 searches")
    wider = dataclasses.replace(MINILM, counts={**MINILM.counts, "others": 1000})
    also, grid = spec(others=("imdb",)), spec(others=("imdb",), interpolation=True)
    assert f"{4 * 2693 + 4000:,} examples" in work(also, wider)
    assert f"{4 * 2693 + 4000 + 21 * 2821:,} examples" in work(grid, wider)


def test_the_options_of_a_choice_are_counted() -> None:
    assert 2 < load(task(PROJECT / "docs" / "examples" / "choose-domain.yaml")).options <= 5


@pytest.mark.slow
def test_facts_come_from_headers_and_data_without_torch(world: Path, tmp_path: Path) -> None:
    facts = facts_of(spec_of(world, sizes=("5%", "10"), max_train=40), Session())
    assert (facts.d, facts.layers, facts.width, facts.labels, facts.sizes) == (D, 2, 16, 2, (222, 10))
    assert facts.counts == {"train": 40, "validation": 32, "test": 32} and 4 < facts.tokens < 30
    assert facts.parameters > D
    other = other_task(tmp_path, "near")
    assert facts_of(spec_of(world, others=(str(other),), max_test=9), Session()).counts["others"] == 9
    with pytest.raises(BadSize):
        facts_of(spec_of(world, sizes=("0",)), Session())
    assert heavy_after("skillviz.runs.memory") == {}
