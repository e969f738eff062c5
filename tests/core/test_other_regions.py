"""Tests of searches outside a region, of its droppable entries, and of harmful ones outside: exact, with twins."""

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.localizers.learned import Mask
from skillviz.core.other_regions import (
    Joint,
    Purified,
    PurifyOptions,
    adversarial,
    minimal,
    purification,
    purify,
    worth_of,
)
from skillviz.core.problem import Problem
from skillviz.core.region import Region
from skillviz.errors import BadInput, BadSize
from tests.core.by_hand import by_hand, refused
from tests.core.localizers.test_searches import arrays, both, draws
from tests.core.problems import examples, finish, loss_at, model_of, problem_and_twin, tiny_problem
from tests.reference.gradient import PlainModel, slow_purify
from tests.reference.searches import slow_adversarial, slow_candidates, slow_minimal


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
    assert [drop.is_dropped for drop in drops] == [drop.loss <= loss(entries) for drop in drops]
    assert kept.size == ([drop.size for drop in drops if drop.is_dropped] or [len(entries)])[-1]


def test_errors_in_what_suffices_are_caught() -> None:
    loss, worth, entries = quadratic(3)
    kept, turned, all_needed, one = (
        finish(minimal(*arguments))[1]
        for arguments in (
            (entries, worth, loss), (entries, lambda k: -worth(k), lambda k: -loss(k)),
            (entries, worth, lambda k: -float(len(k))), (entries[:1], worth, loss),
        )
    )  # fmt: skip
    assert len(kept) < len(entries) and loss(turned) > loss(entries), "a judge that is turned round raises the loss"
    assert (all_needed.tolist(), one.tolist()) == (entries.tolist(), entries[:1].tolist()), "all of it stays"


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


TINY = tiny_problem(n=6)
test_too_few_outside_are_refused = refused(
    BadSize, ("20 entries.* 10 candidates", lambda: finish(adversarial(TINY, np.arange(TINY.d - 10), 20)))
)


def two_tasks(dtype: torch.dtype = torch.float32, n: int = 6) -> tuple[list[Problem], list[PlainModel]]:
    """Return a task of two classes and one of three on one body: the same base and fine-tuned values, own heads."""
    models = {labels: model_of(labels=labels) for labels in (2, 3)}
    body = {name: t for name, t in models[2].state_dict().items() if not name.startswith("classifier")}
    models[3].load_state_dict(body, strict=False)
    problems, twins = zip(
        *(
            problem_and_twin(model, examples(n=n, labels=labels, seed=labels), dtype=dtype, micro_tokens=10_000)
            for labels, model in models.items()
        ),
        strict=True,
    )
    return list(problems), list(twins)


def union_of(problem: Problem, size: int = 300, seed: int = 0) -> Region:
    return Region.from_flat(np.random.default_rng(seed).choice(problem.d, size, replace=False), problem.table.shapes)


@pytest.mark.nightly
@pytest.mark.parametrize("delete_only", [False, True])
def test_it_is_the_descent_of_the_slow_twin(delete_only: bool) -> None:
    problems, twins = two_tasks(torch.float64)
    union, first = union_of(problems[0]), problems[0]
    found = purify(
        problems, union, seed=1, options=PurifyOptions(steps=3, batch_size=4, lr=3e5, delete_only=delete_only)
    )
    scores = torch.rand(first.d, generator=torch.Generator().manual_seed(1)).numpy()
    rows = list(islice(zip(*(p.draws(4, 1) for p in problems), strict=True), 3))
    start = (twins, first.base.numpy(), first.finetuned.numpy(), union.flat().tolist(), scores, rows)
    wanted, planted = (slow_purify(*start, 3e5, 10.0, delete_only, sign)[1] for sign in (1.0, -1.0))
    mended = set(found.region.flat().tolist())
    assert found.removed and (delete_only or found.added), "a test in which nothing is mended says nothing"
    # S is float32 here, so an entry whose score ends at the bias may fall on either side.
    assert len(mended ^ wanted) <= 1
    assert len(mended ^ planted) > found.removed, "a forgotten sign inside the union is caught"
    assert [torch.equal(p.flat.theta, p.base) for p in problems] == [True, True]


@pytest.mark.slow
def test_one_step_of_the_scores_is_autograds() -> None:
    problems, twins = two_tasks(torch.float64)
    joint, union, rows = Joint.of(problems), union_of(problems[0]), [np.arange(4), np.arange(1, 6)]
    mask = Mask(joint, torch.from_numpy(union.flat()), 10.0, 0)
    before = mask.scores.double().numpy().copy()
    mask.soften()
    joint.backward(rows)
    mask.descend(1e4)
    start = (problems[0].base.numpy().copy(), problems[0].finetuned.numpy().copy(), union.flat().tolist())
    moved = slow_purify(twins, *start, before, [rows], 1e4, 10.0)[0] - before
    assert np.abs(moved).max() > 0.1
    # The mask is float32: u near exp(-10) keeps six digits.
    np.testing.assert_allclose(mask.scores.numpy() - before, moved, rtol=1e-4, atol=2e-6)
    joint.reset()


def test_published_and_calibrated_learning_rates_and_that_delete_only_brings_nothing_in() -> None:
    problems, _ = two_tasks()
    union = union_of(problems[0])
    calibrated, again, published, nothing = (
        purify(problems, union, options=PurifyOptions(**options))
        for options in ({"batch_size": 6}, {"batch_size": 6}, {"batch_size": 6, "lr": 1e7}, {"lr": 1e-9})
    )
    assert [s.step for s in calibrated.history] == list(range(1, 11)) and calibrated.lr > 0
    assert 0 < calibrated.added + calibrated.removed < union.size
    assert calibrated.history[-1].size == calibrated.region.size == union.size + calibrated.added - calibrated.removed
    assert again.region == calibrated.region and published.lr == 1e7
    assert (nothing.region, nothing.added, nothing.removed) == (union, 0, 0)
    deleted = purify(problems, union, options=PurifyOptions(batch_size=6, delete_only=True, switch_share=0.5))
    assert deleted.removed and not deleted.added and not (deleted.region - union).size


def losses_at(problems: list[Problem], region: Region) -> float:
    """Return the sum of the tasks' losses."""
    return sum(loss_at(problem, region.flat()) for problem in problems)


@pytest.mark.slow
def test_the_joint_loss_falls() -> None:
    problems, _ = two_tasks(n=12)
    union = union_of(problems[0], 600)
    purified = purify(problems, union, options=PurifyOptions(batch_size=12, switch_share=0.2)).region
    assert losses_at(problems, purified) < losses_at(problems, union)


def test_tasks_may_share_one_model() -> None:
    """If the head is shared too, two problems on one vector give the sum of both gradients, not twice the last."""
    first = two_tasks()[0][0]
    joint = Joint.of([first, Problem(first.flat, first.base, first.finetuned, first.train)])
    loss, summed = joint.backward([np.arange(3), np.arange(3, 6)]), joint.flat.grad.clone()
    assert loss == pytest.approx(2 * first.train.backward(np.arange(6)), rel=1e-5)
    torch.testing.assert_close(summed, 2 * first.flat.grad, rtol=1e-4, atol=1e-6)


def purified(tasks: int, region: Callable[[Problem], Region] = union_of) -> None:
    """Purify with so many of two tasks on one body and a third on another."""
    (first, odd), _ = two_tasks()
    moved = odd.finetuned + (torch.arange(odd.d) == 3)
    purify([first, odd, Problem(odd.flat, odd.base, moved, odd.train)][:tasks], region(first))


test_what_cannot_be_purified_is_refused = refused(
    BadInput,
    ("no entries", purified, 2, lambda problem: Region.empty(problem.table.shapes)),
    ("another architecture", purified, 2, lambda problem: Region({"x": np.arange(2)}, {"x": (3,)})),
    ("at least one task", purified, 0),
    ("one multi-task model", purified, 3),
)


def test_left_in_the_middle_every_model_is_at_base() -> None:
    problems, _ = two_tasks()
    work = purification(problems, union_of(problems[0]), options=PurifyOptions(batch_size=3))
    next(work)
    assert not torch.equal(problems[1].flat.theta, problems[1].base)
    work.close()
    assert all(torch.equal(p.flat.theta, p.base) for p in problems)


test_a_purified_region_counts_what_changed = by_hand(
    ("added and removed", (2, 1), lambda found: (found.added, found.removed),
     Purified(*(Region({"w": np.array(w)}, {"w": (6,)}) for w in ([1, 2, 4, 5], [0, 1, 2])), (), 1.0)),
)  # fmt: skip
