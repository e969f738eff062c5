"""Tests of searches outside a region, of its droppable entries, and of harmful ones outside: exact, with twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.other_regions import adversarial, minimal, worth_of
from skillviz.errors import BadSize
from tests.core.localizers.test_searches import arrays, both, draws
from tests.core.problems import finish, tiny_problem
from tests.reference.other_regions import slow_adversarial, slow_minimal
from tests.reference.searches import slow_candidates


def quadratic(seed: int, n: int = 40) -> tuple[Any, Any, np.ndarray]:
    """Return a loss over sets of entries with interactions, and each entry's exact value in a set, in float64."""
    random = np.random.default_rng(seed)
    gain, pull = random.normal(0.5, 1, n), random.normal(0, 0.2, (n, n))
    entries = np.sort(random.choice(1000, n, replace=False))

    def loss(kept: Any) -> float:
        on = np.isin(entries, np.array(kept, dtype=np.int64)).astype(float)
        return float(-gain @ on + on @ pull @ on)

    return loss, lambda kept: np.array([loss([e for e in kept if e != entry]) - loss(kept) for entry in kept]), entries


@pytest.mark.parametrize("seed", range(8))
def test_what_suffices_is_the_twins_and_its_loss_is_never_higher(seed: int) -> None:
    loss, worth, entries = quadratic(seed)
    drops, kept = finish(minimal(entries, worth, loss, 1 / 32))
    wanted = slow_minimal(entries.tolist(), lambda k: dict(zip(k, worth(k), strict=True)), loss, 1 / 32)
    assert kept.tolist() == wanted and set(kept) <= set(entries) and loss(kept) <= loss(entries)
    assert all(drop.is_dropped == (drop.loss <= loss(entries)) for drop in drops)
    assert kept.size == ([drop.size for drop in drops if drop.is_dropped] or [len(entries)])[-1]


def test_errors_in_what_suffices_are_caught() -> None:
    loss, worth, entries = quadratic(3)
    kept, turned, all_needed, one = (
        finish(minimal(*arguments))[1]
        for arguments in (
            (entries, worth, loss),
            (entries, lambda k: -worth(k), lambda k: -loss(k)),
            (entries, worth, lambda k: -float(len(k))),
            (entries[:1], worth, loss),
        )
    )
    assert len(kept) < len(entries) and loss(turned) > loss(entries), "a judge that is turned round raises the loss"
    assert all_needed.tolist() == entries.tolist() and one.tolist() == entries[:1].tolist(), "all of it stays"


def test_worth_is_the_size_of_the_first_order_effect_at_the_graft() -> None:
    problem, twin = both()
    entries = np.sort(np.random.default_rng(0).choice(problem.d, 30, replace=False))
    watched, kept, (base, tuned) = torch.from_numpy(entries), entries[::2].copy(), arrays(problem)
    problem.watch(watched)
    found, theta = worth_of(problem, watched, kept), base.copy()
    theta[kept] = tuned[kept]
    at_graft, at_base = (
        np.abs(twin.loss_and_gradient(at, np.arange(problem.train.n))[1] * (tuned - base))[kept] for at in (theta, base)
    )
    assert found == pytest.approx(at_graft, rel=1e-5, abs=1e-9)
    assert found != pytest.approx(at_base, rel=1e-2), "the gradient at the base would pass"


@pytest.mark.parametrize("case", [{}, {"labels": 4}, {"moved": 0.1}], ids=str)
def test_what_hurts_most_is_the_twins_and_lies_outside(case: dict[str, Any]) -> None:
    problem, twin = both(**case)
    (base, tuned), size = arrays(problem), 30
    region = np.sort(np.argsort(-np.abs(tuned - base), kind="stable")[:30])
    losses, found = finish(adversarial(problem, region, size, seed=3, steps=4, batch_size=4))
    assert len(found) == size and not np.isin(found, region).any() and len(losses) == 4
    rest = (region.tolist(), slow_candidates(problem.tau.numpy(), 0.1, size + len(region)), size)
    wanted, a_step_less = (
        slow_adversarial(base, tuned, twin.loss_and_gradient, draws(problem, 4, steps), *rest) for steps in (4, 1)
    )
    assert found.tolist() == wanted != a_step_less
    assert torch.equal(problem.flat.theta, problem.base), "the model rests at the base again"


def test_too_few_outside_are_refused() -> None:
    problem = tiny_problem(n=6)
    with pytest.raises(BadSize, match="20 entries.* 10 candidates"):
        finish(adversarial(problem, np.arange(problem.d - 10), 20))
