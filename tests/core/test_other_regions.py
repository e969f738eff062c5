"""Tests of searches outside a region, of its droppable entries, and of harmful ones outside: exact, with twins."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.other_regions import Drop, adversarial, minimal, worth_of
from skillviz.core.problem import Problem
from skillviz.errors import BadSize
from tests.core.localizers.test_every_localizer import finish, start
from tests.core.localizers.test_searches import arrays, both
from tests.core.problems import tiny_problem
from tests.reference.other_regions import slow_adversarial, slow_minimal
from tests.reference.searches import slow_candidates


def returned(work: Any) -> tuple[list[Any], Any]:
    steps = []
    while True:
        try:
            steps.append(next(work))
        except StopIteration as end:
            return steps, end.value


def quadratic(seed: int, n: int = 40) -> tuple[Any, Any, np.ndarray]:
    """Return a loss over sets of entries with interactions, and each entry's exact value in a set, in float64."""
    random = np.random.default_rng(seed)
    gain, pull = random.normal(0.5, 1, n), random.normal(0, 0.2, (n, n))
    entries = np.sort(random.choice(1000, n, replace=False))
    place = {int(entry): i for i, entry in enumerate(entries)}

    def loss(kept: Any) -> float:
        on = np.zeros(n)
        on[[place[int(entry)] for entry in kept]] = 1
        return float(-gain @ on + on @ pull @ on)

    def worth(kept: Any) -> np.ndarray:
        return np.array([loss([e for e in kept if e != entry]) - loss(kept) for entry in kept])

    return loss, worth, entries


@pytest.mark.parametrize("seed", range(8))
def test_what_suffices_is_the_twins_and_its_loss_is_never_higher(seed: int) -> None:
    loss, worth, entries = quadratic(seed)
    drops, kept = returned(minimal(entries, worth, loss, 1 / 32))
    wanted = slow_minimal(entries.tolist(), lambda k: dict(zip(k, worth(k), strict=True)), loss, 1 / 32)
    assert kept.tolist() == wanted and set(kept) <= set(entries)
    assert loss(kept) <= loss(entries)
    assert all(drop.is_dropped == (drop.loss <= loss(entries)) for drop in drops)
    assert kept.size == ([drop.size for drop in drops if drop.is_dropped] or [len(entries)])[-1]


def test_errors_in_what_suffices_are_caught() -> None:
    loss, worth, entries = quadratic(3)
    _, kept = returned(minimal(entries, worth, loss))
    assert len(kept) < len(entries)
    _, greedy = returned(minimal(entries, lambda k: -worth(k), lambda k: -loss(k)))
    assert loss(greedy) > loss(entries), "a judge that is turned round would raise the loss"
    _, nothing = returned(minimal(entries, worth, lambda k: -float(len(k))))
    assert nothing.tolist() == entries.tolist(), "what cannot be dropped stays"
    assert returned(minimal(entries[:1], worth, loss))[1].tolist() == entries[:1].tolist()
    assert Drop(1, 0.5, True).size == 1


def test_worth_is_the_size_of_the_first_order_effect_at_the_graft() -> None:
    problem, twin = both()
    entries = np.sort(np.random.default_rng(0).choice(problem.d, 30, replace=False))
    watched = torch.from_numpy(entries)
    problem.watch(watched)
    kept = entries[::2].copy()
    found = worth_of(problem, watched, kept)
    base, tuned = arrays(problem)
    theta = base.copy()
    theta[kept] = tuned[kept]
    slope = twin.loss_and_gradient(theta, np.arange(problem.train.n))[1]
    wanted = np.abs(slope[kept] * (tuned - base)[kept])
    assert found == pytest.approx(wanted, rel=1e-5, abs=1e-9)
    at_base = np.abs(twin.loss_and_gradient(base, np.arange(problem.train.n))[1][kept] * (tuned - base)[kept])
    assert found != pytest.approx(at_base, rel=1e-2), "the gradient at the base would pass"


@pytest.mark.parametrize("case", [{}, {"labels": 4}, {"moved": 0.1}], ids=str)
def test_what_hurts_most_is_the_twins_and_lies_outside(case: dict[str, Any]) -> None:
    problem, twin = both(**case)
    base, tuned = arrays(problem)
    region, size = np.sort(np.argsort(-np.abs(tuned - base), kind="stable")[:30]), 30
    losses, found = returned(adversarial(problem, region, size, seed=3, steps=4, batch_size=4))
    assert len(found) == size and not np.isin(found, region).any() and len(losses) == 4
    rows = list(islice(problem.draws(4, 3), 4))
    candidates = slow_candidates(problem.tau.numpy(), 0.1, size + len(region))
    arguments = (base, tuned, twin.loss_and_gradient, rows, region.tolist(), candidates, size)
    assert found.tolist() == slow_adversarial(*arguments)
    fewer = slow_adversarial(*arguments[:3], rows[:1], *arguments[4:])
    assert found.tolist() != fewer, "a step less would pass"
    assert torch.equal(problem.flat.theta, problem.base), "the model rests at the base again"


def test_too_few_outside_are_refused() -> None:
    problem = tiny_problem(n=6)
    with pytest.raises(BadSize, match="20 entries were requested, and 10 candidates lie outside"):
        returned(adversarial(problem, np.arange(problem.d - 10), 20))
