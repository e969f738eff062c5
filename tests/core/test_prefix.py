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
from tests.core.by_hand import by_hand
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


def equals_whole_passes(problem: Problem) -> bool:
    """Return whether the changes give the scores of whole passes; check that they differ, and the model afterwards."""
    changes, wanted = changes_of(problem), []
    for change in changes:
        problem.set_region(change.entries)
        wanted.append(problem.train.logits())
    problem.reset()
    found = list(logits_of(problem.train, changes))
    assert not np.array_equal(found[0], found[1]), "the change does nothing: the comparison would say nothing"
    return is_as_it_was(problem) and np.array_equal(found, wanted)


def is_as_it_was(problem: Problem) -> bool:
    blocks = blocks_of(problem.flat.model, problem.table)
    return torch.equal(problem.flat.theta, problem.base) and not any("forward" in block.__dict__ for block in blocks)


KINDS = [(family, torch.float32) for family, row in FAMILIES.items() if row.sequential] + [
    ("bert", torch.bfloat16),
    ("gpt2", torch.bfloat16),
]


@pytest.mark.cases(2, 3)
@pytest.mark.parametrize(("family", "dtype"), KINDS, ids=str)
def test_scores_are_those_of_whole_passes(family: str, dtype: torch.dtype) -> None:
    assert equals_whole_passes(problem_of(family, dtype=dtype))


def test_layers_below_every_change_run_once_for_each_micro_batch() -> None:
    problem, runs = problem_of("bert"), Counter[int]()
    changes = [change for change in changes_of(problem) if not bool((change.entries < problem.d // 2).any())]
    blocks, batches = blocks_of(problem.flat.model, problem.table), problem.train.batches
    for number, block in enumerate(blocks):
        block.attention.register_forward_hook(lambda *_, number=number: runs.update([number]))
    list(logits_of(problem.train, [*changes, *(change for change in changes if not len(change.entries))]))
    parts = len(batches.plan(np.arange(problem.train.n)))
    assert parts > 2 and len(changes) == 4
    assert runs == {0: parts, 1: 4 * parts}, "three changes of layer 1, and none twice"


def test_few_activations_are_kept_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of("bert")
    monkeypatch.setattr(prefix, "KEPT_TOKENS", 2 * TOKENS)
    plan = problem.train.batches.plan(np.arange(problem.train.n))
    assert [len(part) for part in prefix._parts(plan, problem.train.batches.lengths, 1)][0] == 2
    assert equals_whole_passes(problem)


def test_a_failure_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of("bert")
    monkeypatch.setattr(problem.train, "answers", lambda rows: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(logits_of(problem.train, changes_of(problem)))
    assert is_as_it_was(problem)


def test_other_families_make_whole_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of("bert")
    monkeypatch.setattr(prefix, "family_of", lambda model_type: UNKNOWN)
    assert blocks_of(problem.flat.model, problem.table) == [] and equals_whole_passes(problem)


def lowest_of(*layers: int) -> int:
    table = problem_of("bert").table
    return lowest_layer(
        Region({p.name: np.array([0]) for p in table.parameters if p.layer in layers}, table.shapes), table
    )


test_the_lowest_layer_of_a_region = by_hand(
    ("one", 1, lowest_of, 1), ("both", 0, lowest_of, 1, 0), ("none", 2, lowest_of)
)
