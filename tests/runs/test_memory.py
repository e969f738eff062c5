"""Tests of the memory and the work of a run, known before it starts from headers and rows, and told while it goes."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.objective import Objective
from skillviz.errors import BadSize
from skillviz.runs.memory import Facts, cost_of, facts_of, peak_bytes
from skillviz.runs.pace import OTHERS, passes, work_words
from skillviz.runs.process import Progress
from skillviz.runs.scoring import Scoring
from skillviz.tasks.project import PROJECT
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from tests.core.by_hand import by_hand
from tests.runs.test_scoring import other_task
from tests.runs.tiny_world import D, RunFolder, RunSpec, Session, Store, produce, spec_of
from tests.test_torch_free import heavy_after

MINILM = Facts(
    d=10_646_784, parameters=22_713_216, width=384, layers=6, labels=2,
    counts={"train": 6908, "validation": 872, "test": 1821}, sizes=(10_646,),
)  # fmt: skip


def spec(localizer: str = "stagewise", **changes: object) -> RunSpec:
    return RunSpec(base="minilm", finetuned="f", task="sst2", localizer=localizer, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", LOCALIZERS)
def test_a_larger_model_takes_more_memory(name: str) -> None:
    assert peak_bytes(spec(name), dataclasses.replace(MINILM, parameters=10**9)) > peak_bytes(spec(name), MINILM)


def test_the_memory_for_gradients_is_an_option() -> None:
    assert peak_bytes(spec("linearized", options={"jacobian_gib": 0.05}), MINILM) < peak_bytes(
        spec("linearized"), MINILM
    )
    assert peak_bytes(spec(options={"steps": "many"}), MINILM) == peak_bytes(spec(), MINILM), "reported elsewhere"


SCORED = 872 + 1821  # each of both models and of the graft's two states
TWO = {"sizes": (10_646, 1_064)}
WITH_OTHERS = {"counts": {**MINILM.counts, "others": 1000}}


@pytest.mark.parametrize(
    ("changes", "facts", "words"),
    [
        ({}, {}, f"1 search with 6,400 gradients of examples, and {4 * SCORED:,} examples to score$"),
        ({}, TWO, f"2 searches with 6,400 gradients of examples each, and {6 * SCORED:,} examples to score$"),
        ({"localizer": "movement"}, TWO, "1 search with no gradients"),  # one ranking has all sizes
        ({"steps": 100}, {}, ".*12,800 gradients"),
        ({"options": {"batch_size": 64}}, {}, ".*3,200 gradients"),
        ({"nulls": "shuffled", "null_draws": 2}, {}, "3 searches"),
        ({"others": ("imdb",)}, WITH_OTHERS, f".*{4 * SCORED + 4000:,} examples"),
        (
            {"others": ("imdb",), "interpolation": True}, WITH_OTHERS,
            f".*{4 * SCORED + 4000 + 21 * 2821:,} examples",
        ),
    ],
    ids=str,
)  # fmt: skip
def test_the_work_is_counted_in_examples(changes: dict[str, Any], facts: dict[str, Any], words: str) -> None:
    run, known = spec(**changes), dataclasses.replace(MINILM, **facts)
    assert re.match(words, work_words(run, cost_of(run, known), known.counts, known.sizes))


def test_the_options_of_a_choice_are_counted() -> None:
    assert 2 < load(task(PROJECT / "docs" / "examples" / "choose-domain.yaml")).options <= 5


@pytest.mark.slow
def test_facts_come_from_headers_and_data_without_torch(world: Path, tmp_path: Path) -> None:
    facts = facts_of(spec_of(world, sizes=("5%", "10"), max_train=40), Session())
    assert facts.d == D
    assert facts.layers == 2
    assert facts.width == 16
    assert facts.labels == 2
    assert facts.sizes == (222, 10)
    assert facts.counts == {"train": 40, "validation": 32, "test": 32}
    assert 4 < facts.tokens < 30
    assert facts.parameters > D
    assert (
        facts_of(spec_of(world, others=(str(other_task(tmp_path, "near")),), max_test=9), Session()).counts["others"]
        == 9
    )
    with pytest.raises(BadSize):
        facts_of(spec_of(world, sizes=("0",)), Session())
    assert heavy_after("skillviz.runs.memory") == {}


@pytest.mark.cases(0, 3)
@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": ("5%",)},
        {"sizes": ("5%", "1%", "20%"), "others": "both", "interpolation": True},
        {"sizes": ("5%", "1%"), "interpolation": True, "localizer": "stagewise", "steps": 2, "batch_size": 8},
        {"sizes": ("5%",), "others": "both", "max_test": 9},
        {"sizes": ("50%",), "gain": "kinds"},
    ],
)
def test_the_examples_that_are_told_are_those_that_went_through_the_model(
    world: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    if changes.get("others"):
        changes = {**changes, "others": tuple(str(other_task(tmp_path / name, name)) for name in ("near", "far"))}
    rows, checked, told, events = [], [], list[tuple[Progress, int]](), []
    real, say, check = Objective.answers, RunFolder.event, Scoring.checks

    def checks(self: Scoring, searched: Any) -> Any:
        before = sum(rows)
        found = check(self, searched)
        checked.append(sum(rows) - before)
        return found

    monkeypatch.setattr(Objective, "answers", lambda self, some: (rows.append(len(some)), real(self, some))[1])
    monkeypatch.setattr(Scoring, "checks", checks)
    monkeypatch.setattr(RunFolder, "event", lambda self, **said: (events.append(said), say(self, **said))[1])
    produce(spec_of(world, **changes), store, lambda progress: told.append((progress, sum(rows))), Session())
    (_, begun), *scored = [one for one in told if one[0].phase == "evaluate"]
    done = [progress.done for progress, _ in scored]
    assert done == sorted(done) and done[-1] == scored[-1][0].total == sum(rows) - begun - sum(checked) > 0
    left = [event["left"] for event in events if event["phase"] == "evaluate"]
    assert left[0] is not None and left[-1] == 0 and len(left) == len(done) + 1
    assert None not in [event["left"] for event in events if event["phase"] == "search" and "step" in event][1:], (
        "the first step measures nothing"
    )


OWN = {"train": 900, "validation": 10, "test": 100}


WITH_OWN = {**OWN, OTHERS: 1000}
test_each_kind_of_work_counts = by_hand(
    ("the test data", 2 * 110, passes, spec("movement"), OWN, (9,)),
    ("other data at every size", 4 * 110 + 4 * 1000, passes, spec("movement"), WITH_OWN, (9, 5)),
    ("the grid", 4 * 110 + 4 * 1000 + 31 * 1100, passes, spec("movement", interpolation=True), WITH_OWN, (9, 5)),
    ("no test set", 20, passes, spec("movement", interpolation=True), {"train": 900, "validation": 10}, (9,)),
    ("gains by kind take half of the examples at each gain, and a state more", 10 + 2 * 3 * 17 * 5,
     lambda: passes(spec("movement", gain="kinds"), {"validation": 10}, (9,), 3)
     - passes(spec("movement", gain="fit"), {"validation": 10}, (9,), 3)),
)  # fmt: skip
