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
    assert not torch.equal(problem.finetuned, problem.base)
    for size, wanted in ((problem.d, problem.finetuned), (0, problem.base)):
        problem.set_region(torch.arange(size))
        assert torch.equal(problem.flat.theta, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_region_is_copied_entry_by_entry(dtype: torch.dtype) -> None:
    problem = tiny_problem(dtype=dtype)
    chosen = torch.randperm(problem.d, generator=torch.Generator().manual_seed(0))[:500]
    inside = torch.zeros(problem.d, dtype=torch.bool).index_fill(0, chosen, True)
    problem.set_region(torch.arange(problem.d))
    problem.set_region(chosen)
    assert torch.equal(problem.flat.theta, torch.where(inside, problem.finetuned, problem.base))
    added = problem.base.float() + inside * problem.tau
    assert dtype == torch.float32 or torch.equal(problem.flat.theta.float(), added)
    problem.reset()
    assert torch.equal(problem.flat.theta, problem.base)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_soft_graft_is_base_plus_gamma_tau(dtype: torch.dtype) -> None:
    problem, eps = tiny_problem(dtype=dtype), torch.finfo(dtype).eps
    gamma = torch.rand(problem.d, generator=torch.Generator().manual_seed(0))
    exact = problem.base.double() + gamma.double() * (problem.finetuned.double() - problem.base.double())
    problem.set_soft(gamma)
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
    n, a_round = problem.train.n, problem.train.n // min(size, problem.train.n)
    drawn, again = (np.stack(list(islice(problem.draws(size, seed), 12))) for _ in range(2))
    assert np.array_equal(drawn, again) and drawn.shape == (12, min(size, n)) and set(drawn.flat) <= set(range(n))
    assert all(len(set(rows)) == min(size, n) for rows in drawn.tolist())
    assert len(set(drawn[:a_round].flat)) == a_round * min(size, n), "an example came twice in one epoch"


def test_draws_differ_by_seed_and_epoch(problem: Problem) -> None:
    first, second = islice(problem.draws(10, 0), 2)
    assert not np.array_equal(first, second) and not np.array_equal(first, next(problem.draws(10, 1)))
