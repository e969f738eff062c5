"""Tests of purification against autograd through the soft mask, with two tasks that share all but the head."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest
import torch

from skillviz.core.localizers.learned import Mask
from skillviz.core.other_regions import Joint, Purified, PurifyOptions, purification, purify
from skillviz.core.problem import Problem
from skillviz.core.region import Region
from skillviz.errors import BadInput
from tests.core.problems import examples, model_of, problem_of, table_of
from tests.reference.gradient import PlainModel
from tests.reference.purify import slow_purify


def two_tasks(dtype: torch.dtype = torch.float32, n: int = 6) -> tuple[list[Problem], list[PlainModel]]:
    """Return a task of two classes and one of three on one body: the same base and fine-tuned values, own heads."""
    models = [model_of(labels=labels) for labels in (2, 3)]
    body = {name: t for name, t in models[0].state_dict().items() if not name.startswith("classifier")}
    models[1].load_state_dict(body, strict=False)
    tasks = [(model, examples(n=n, labels=labels, seed=labels)) for labels, model in enumerate(models, start=2)]
    twins = [PlainModel(model, table_of(model).names, encoded, "head") for model, encoded in tasks]
    return [problem_of(model, encoded, dtype=dtype, micro_tokens=10_000) for model, encoded in tasks], twins


def union_of(problem: Problem, size: int = 300, seed: int = 0) -> Region:
    chosen = np.random.default_rng(seed).choice(problem.d, size, replace=False)
    return Region.from_flat(chosen, problem.table.shapes)


@pytest.mark.nightly
@pytest.mark.parametrize("delete_only", [False, True])
def test_it_is_the_descent_of_the_slow_twin(delete_only: bool) -> None:
    problems, twins = two_tasks(torch.float64)
    union, first = union_of(problems[0]), problems[0]
    options = PurifyOptions(steps=3, batch_size=4, lr=3e5, delete_only=delete_only)
    found = purify(problems, union, seed=1, options=options)
    scores = torch.rand(first.d, generator=torch.Generator().manual_seed(1)).numpy()
    rows = list(islice(zip(*(p.draws(4, 1) for p in problems), strict=True), 3))
    start = (twins, first.base.numpy(), first.finetuned.numpy(), union.flat().tolist(), scores, rows)
    wanted, planted = (slow_purify(*start, 3e5, 10.0, delete_only, sign)[1] for sign in (1.0, -1.0))
    mended = set(found.region.flat().tolist())
    assert found.removed and (delete_only or found.added), "a test in which nothing is mended says nothing"
    # S is float32 here, so an entry whose score ends at the bias may fall on either side.
    assert len(mended ^ wanted) <= 1
    assert len(mended ^ planted) > found.removed, "a forgotten sign inside the union is caught"
    assert all(torch.equal(p.flat.theta, p.base) for p in problems)


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


def test_published_and_calibrated_learning_rates() -> None:
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
    assert nothing.region == union and nothing.added == nothing.removed == 0


def test_delete_only_brings_nothing_in() -> None:
    problems, _ = two_tasks()
    union = union_of(problems[0])
    found = purify(problems, union, options=PurifyOptions(batch_size=6, delete_only=True, switch_share=0.5))
    assert found.removed and not found.added and (found.region - union).size == 0


def loss_at(problems: list[Problem], region: Region) -> float:
    total = 0.0
    for problem in problems:
        with problem.at_base_afterwards():
            problem.set_region(torch.from_numpy(region.flat()))
            total += problem.train.loss()
    return total


@pytest.mark.slow
def test_the_joint_loss_falls() -> None:
    problems, _ = two_tasks(n=12)
    union = union_of(problems[0], 600)
    found = purify(problems, union, options=PurifyOptions(batch_size=12, switch_share=0.2))
    assert loss_at(problems, found.region) < loss_at(problems, union)


def test_tasks_may_share_one_model() -> None:
    """If the head is shared too, two problems on one vector give the sum of both gradients, not twice the last."""
    first = two_tasks()[0][0]
    joint = Joint.of([first, Problem(first.flat, first.base, first.finetuned, first.train)])
    loss, summed = joint.backward([np.arange(3), np.arange(3, 6)]), joint.flat.grad.clone()
    assert loss == pytest.approx(2 * first.train.backward(np.arange(6)), rel=1e-5)
    torch.testing.assert_close(summed, 2 * first.flat.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("words", "tasks", "region"),
    [
        ("no entries", slice(2), lambda problem: Region.empty(problem.table.shapes)),
        ("another architecture", slice(2), lambda problem: Region({"x": np.arange(2)}, {"x": (3,)})),
        ("at least one task", slice(0), union_of),
        ("one multi-task model", slice(3), union_of),
    ],
)
def test_what_cannot_be_purified_is_refused(words: str, tasks: slice, region: Callable[[Problem], Region]) -> None:
    problems, _ = two_tasks()
    odd = problems[1]
    other = Problem(odd.flat, odd.base, odd.finetuned + (torch.arange(odd.d) == 3), odd.train)
    with pytest.raises(BadInput, match=words):
        purify([*problems, other][tasks], region(problems[0]))


def test_left_in_the_middle_every_model_is_at_base() -> None:
    problems, _ = two_tasks()
    work = purification(problems, union_of(problems[0]), options=PurifyOptions(batch_size=3))
    next(work)
    assert not torch.equal(problems[1].flat.theta, problems[1].base)
    work.close()
    assert all(torch.equal(p.flat.theta, p.base) for p in problems)


def test_a_purified_region_counts_what_changed() -> None:
    shapes = {"w": (6,)}
    one, other = Region({"w": np.array([0, 1, 2])}, shapes), Region({"w": np.array([1, 2, 4, 5])}, shapes)
    found = Purified(other, one, (), 1.0)
    assert (found.added, found.removed) == (2, 1)
