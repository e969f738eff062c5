"""Tests that grafts are exact to the bit, also when removed, and that draws use every example in turn."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core.problem import Problem
from tests.core.problems import tiny_problem

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_the_ends_are_exact(family: str, dtype: torch.dtype) -> None:
    problem = tiny_problem(family, dtype=dtype)
    problem.set_region(torch.arange(problem.d))
    assert torch.equal(problem.flat.theta, problem.finetuned)
    assert not torch.equal(problem.flat.theta, problem.base)
    problem.set_region(torch.tensor([], dtype=torch.long))
    assert torch.equal(problem.flat.theta, problem.base)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_region_is_copied_entry_by_entry(dtype: torch.dtype) -> None:
    problem = tiny_problem(dtype=dtype)
    chosen = torch.randperm(problem.d, generator=torch.Generator().manual_seed(0))[:500]
    problem.set_region(torch.arange(problem.d))
    problem.set_region(chosen)
    inside = torch.zeros(problem.d, dtype=torch.bool)
    inside[chosen] = True
    assert torch.equal(problem.flat.theta, torch.where(inside, problem.finetuned, problem.base))
    added = problem.base.float() + inside * problem.tau
    assert dtype == torch.float32 or torch.equal(problem.flat.theta.float(), added)
    problem.reset()
    assert torch.equal(problem.flat.theta, problem.base)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_soft_graft_is_base_plus_gamma_tau(dtype: torch.dtype) -> None:
    problem = tiny_problem(dtype=dtype)
    gamma = torch.rand(problem.d, generator=torch.Generator().manual_seed(0))
    problem.set_soft(gamma)
    exact = problem.base.double() + gamma.double() * (problem.finetuned.double() - problem.base.double())
    eps = torch.finfo(dtype).eps
    assert bool(((problem.flat.theta.double() - exact).abs() <= 2 * eps * exact.abs() + 1e-7).all())
    problem.set_soft(torch.zeros(problem.d))
    assert torch.equal(problem.flat.theta, problem.base)


def test_movements_too_small_for_bfloat16_are_kept() -> None:
    problem = tiny_problem(dtype=torch.bfloat16)
    exact = problem.finetuned.double() - problem.base.double()
    assert torch.equal(problem.tau.double(), exact), "a difference of two bfloat16 is exact in float32"
    assert not torch.equal((problem.finetuned - problem.base).double(), exact), "bfloat16 would round it"


def test_base_comes_back_when_the_body_raises() -> None:
    problem = tiny_problem()
    with pytest.raises(RuntimeError, match="planted"), problem.at_base_afterwards():
        problem.set_region(torch.arange(100))
        raise RuntimeError("planted")
    assert torch.equal(problem.flat.theta, problem.base)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return tiny_problem(n=10)


@settings(max_examples=30, deadline=None)
@given(size=st.integers(1, 25), seed=st.integers(0, 5))
def test_draws(problem: Problem, size: int, seed: int) -> None:
    n = problem.train.n
    drawn = list(islice(problem.draws(size, seed), 12))
    assert all(len(rows) == min(size, n) == len(set(rows.tolist())) for rows in drawn)
    assert all(((rows >= 0) & (rows < n)).all() for rows in drawn)
    a_round = n // min(size, n)
    epoch = np.concatenate(drawn[:a_round])
    assert len(set(epoch.tolist())) == a_round * min(size, n), "an example came twice in one epoch"
    again = list(islice(problem.draws(size, seed), 12))
    assert all(np.array_equal(a, b) for a, b in zip(drawn, again, strict=True))


def test_draws_differ_by_seed_and_epoch(problem: Problem) -> None:
    first, second = islice(problem.draws(10, 0), 2)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, next(problem.draws(10, 1)))
