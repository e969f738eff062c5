"""Tests of single examples' gradients from one joint pass: they equal autograd's; unsuitable layers go one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from skillviz.core import architectures as families
from skillviz.core.objective import Objective
from skillviz.core.problem import Problem
from skillviz.core.single_gradients import taps_of
from tests.core.problems import (
    MASK,
    PAD,
    difference_gradients,
    examples,
    model_of,
    one_by_one,
    problem_of,
    tiny_problem,
)
from tests.tiny import FAMILIES
from tests.tiny_families import family_model, family_readout

ROWS = np.array([4, 0, 7, 2, 5])


def is_autograds(problem: Problem) -> None:
    """Check that the gradients of a batch equal those of a pass per example, which autograd gives."""
    logits, found = difference_gradients(problem.train, ROWS)
    wanted_logits, wanted = difference_gradients(one_by_one(problem), ROWS)
    torch.testing.assert_close(logits, wanted_logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=float(2e-6 * wanted.abs().max()))


@pytest.mark.parametrize("family", FAMILIES)
def test_one_pass_gives_the_gradient_of_each_example(family: str) -> None:
    problem = tiny_problem(family, "head" if family != "opt" else "causal", labels=3)
    assert problem.train.taps is not None
    assert len(list(problem.train.singly(ROWS))) == 1 and len(list(one_by_one(problem).singly(ROWS))) == len(ROWS)
    is_autograds(problem)


@pytest.mark.nightly
@pytest.mark.parametrize("family", [name for name in families.FAMILIES if name != "canine"])  # padding affects it
def test_in_every_family_they_are_autograds(family: str) -> None:
    readout = family_readout(family)
    model = family_model(family, readout)
    model.config.pad_token_id, model.config.eos_token_id = PAD, MASK  # an example has one mask
    is_autograds(problem_of(model, examples(readout), readout))


def test_examples_of_several_sequences_have_one_gradient() -> None:
    problem = tiny_problem("llama", "causal", labels=3)
    assert problem.train.taps is not None
    is_autograds(problem)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_dtypes_take_one_example_at_a_time(dtype: torch.dtype) -> None:
    problem = tiny_problem(dtype=dtype)
    assert problem.train.taps is None and len(list(problem.train.singly(ROWS))) == len(ROWS)
    autocast = Objective(problem.flat, problem.train.readout, examples(), autocast=torch.bfloat16)
    assert autocast.taps is None


class Twice(nn.Module):
    """A layer that its block calls twice, like in a model with shared layers."""

    def __init__(self, dense: nn.Linear) -> None:
        super().__init__()
        self.dense = dense

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(x) + self.dense(2 * x)


class Beside(Twice):
    """A layer whose weight is used outside the call, where no hook sees it."""

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(x) + 0.1 * nn.functional.linear(x, self.dense.weight)


class Flattened(Twice):
    """A layer whose input has the first tokens of all examples, then the second ones."""

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(x.transpose(0, 1).flatten(0, 1)).view(x.shape[1], x.shape[0], -1).transpose(0, 1)


class Mixed(Twice):
    """A layer whose input has the examples in another order."""

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(x.flip(0)).flip(0)


class Odd(nn.Linear):
    """A layer of an unknown kind."""


@pytest.mark.parametrize("odd", [Twice, Beside, Flattened, Mixed])
def test_a_pass_that_does_not_give_them_is_seen(odd: type[Twice]) -> None:
    model = model_of()
    block = model.get_submodule("bert.encoder.layer.1.attention.self")
    block.query = odd(block.query)
    problem = problem_of(model, examples())
    assert taps_of(problem.flat) is not None and problem.train.taps is None
    assert len(list(problem.train.singly(ROWS))) == len(ROWS)
    is_autograds(problem)


def test_a_layer_of_an_unknown_kind_is_not_tapped() -> None:
    model = model_of()
    model.get_submodule("bert.encoder.layer.0.attention.self.key").__class__ = Odd
    assert taps_of(problem_of(model, examples()).flat) is None


def test_a_parameter_that_takes_no_part_has_a_gradient_of_zeros() -> None:
    model = model_of()
    dropout = model.get_submodule("bert.encoder.layer.1.output.dropout")
    dropout.register_forward_hook(lambda _, __, out: 0 * out.detach())
    problem = problem_of(model, examples())
    assert problem.train.taps is not None
    _, found = difference_gradients(problem.train, ROWS)
    unused = problem.table.names.index("bert.encoder.layer.1.output.dense.weight")
    parts = found.split([parameter.size for parameter in problem.table.parameters], dim=-1)
    assert not parts[unused].any() and parts[unused - 4].any()


def test_parameters_ask_for_gradients_as_before() -> None:
    problem = tiny_problem()
    before = problem.train.backward()
    kept = problem.flat.grad.clone()
    list(problem.train.singly(ROWS))
    assert problem.train.backward() == before and torch.equal(problem.flat.grad, kept)
    assert not any(tap.layer._forward_hooks for tap in problem.train.taps or ())
