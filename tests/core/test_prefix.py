"""Tests of grafts that share their lower layers: bit for bit the results of whole passes, with fewer blocks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core import prefix
from skillviz.core.architectures import FAMILIES, UNKNOWN
from skillviz.core.prefix import Change, blocks_of, logits_of, lowest_layer
from skillviz.core.problem import Problem
from skillviz.core.region import Region
from tests.core.problems import tiny_problem

READOUTS = {"bert": "head", "roberta": "prompt", "distilbert": "head"}
TOKENS = 40  # per micro-batch: three or four examples


def problem_of(family: str, **changes: Any) -> Problem:
    return tiny_problem(family, READOUTS.get(family, "causal"), micro_tokens=TOKENS, **changes)


def changes_of(problem: Problem) -> list[Change]:
    """Return changes from the top layer alone to all layers, and an empty one; shuffled, as order must not matter."""
    draw = np.random.default_rng(0)
    layer = np.repeat([p.layer for p in problem.table.parameters], [p.size for p in problem.table.parameters])
    entries = [draw.choice(np.flatnonzero(layer >= first), 300, replace=False) for first in (1, 0, 1, 1)]
    chosen = [torch.from_numpy(one) for one in [entries[0], np.empty(0, dtype=np.int64), *entries[1:]]]
    return [Change(one, lambda one=one: problem.finetuned[one]) for one in chosen]


def whole_passes(problem: Problem, changes: list[Change]) -> list[np.ndarray]:
    found = []
    for change in changes:
        problem.set_region(change.entries)
        found.append(problem.train.logits())
    problem.reset()
    return found


KINDS = [(family, torch.float32) for family, row in FAMILIES.items() if row.sequential] + [
    ("bert", torch.bfloat16),
    ("gpt2", torch.bfloat16),
]


@pytest.mark.cases(4, 3)
@pytest.mark.parametrize(("family", "dtype"), KINDS, ids=str)
def test_scores_are_those_of_whole_passes(family: str, dtype: torch.dtype) -> None:
    problem = problem_of(family, dtype=dtype)
    changes = changes_of(problem)
    wanted = whole_passes(problem, changes)
    found = list(logits_of(problem.train, changes))
    assert all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))
    assert not np.array_equal(found[0], found[1]), "the change does nothing: the comparison would say nothing"
    assert torch.equal(problem.flat.theta, problem.base)
    assert all("forward" not in block.__dict__ for block in blocks_of(problem.flat.model, problem.table))


def test_layers_below_every_change_run_once_for_each_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of("bert")
    changes = [change for change in changes_of(problem) if not bool((change.entries < problem.d // 2).any())]
    nothing = next(change for change in changes if not len(change.entries))
    blocks, runs = blocks_of(problem.flat.model, problem.table), Counter[int]()
    forward = type(blocks[0]).forward

    def counted(block: torch.nn.Module, *args: Any, **named: Any) -> Any:
        runs[blocks.index(block)] += 1
        return forward(block, *args, **named)

    monkeypatch.setattr(type(blocks[0]), "forward", counted)
    list(logits_of(problem.train, [*changes, nothing]))
    batches = len(problem.train.batches.plan(np.arange(problem.train.n)))
    assert batches > 2 and len(changes) == 4
    assert runs == {0: batches, 1: 4 * batches}, "three changes of layer 1, and none twice"


def test_few_activations_are_kept_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of("bert")
    changes = changes_of(problem)
    wanted = whole_passes(problem, changes)
    monkeypatch.setattr(prefix, "KEPT_TOKENS", 2 * TOKENS)
    plan = problem.train.batches.plan(np.arange(problem.train.n))
    assert [len(part) for part in prefix._parts(plan, problem.train.batches.lengths, 1)][0] == 2
    found = list(logits_of(problem.train, changes))
    assert all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))


def test_a_failure_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of("bert")
    monkeypatch.setattr(problem.train, "answers", lambda rows: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(logits_of(problem.train, changes_of(problem)))
    assert torch.equal(problem.flat.theta, problem.base)
    assert all("forward" not in block.__dict__ for block in blocks_of(problem.flat.model, problem.table))


def test_other_families_make_whole_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of("bert")
    changes = changes_of(problem)
    wanted = whole_passes(problem, changes)
    monkeypatch.setattr(prefix, "family_of", lambda model_type: UNKNOWN)
    assert blocks_of(problem.flat.model, problem.table) == []
    found = list(logits_of(problem.train, changes))
    assert all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))


def test_the_lowest_layer_of_a_region() -> None:
    table = problem_of("bert").table
    names = {layer: next(p.name for p in table.parameters if p.layer == layer) for layer in (0, 1)}
    one = np.array([0])
    assert lowest_layer(Region({names[1]: one}, table.shapes), table) == 1
    assert lowest_layer(Region({names[1]: one, names[0]: one}, table.shapes), table) == 0
    assert lowest_layer(Region.empty(table.shapes), table) == 2
