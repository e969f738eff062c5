"""Tests of single examples' gradients from one joint pass: they equal autograd's; unsuitable layers go one by one."""

from __future__ import annotations

from collections.abc import Callable

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


@pytest.mark.parametrize(
    ("family", "readout"),
    [*((family, "head" if family != "opt" else "causal") for family in FAMILIES), ("llama", "causal")],
)
def test_one_pass_gives_the_gradient_of_each_example(family: str, readout: str) -> None:
    problem = tiny_problem(family, readout, labels=3)
    passes = [len(list(train.singly(ROWS))) for train in (problem.train, one_by_one(problem))]
    assert problem.train.taps is not None and (passes == [1, len(ROWS)] or (family, readout) == ("llama", "causal"))
    is_autograds(problem)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_dtypes_take_one_example_at_a_time(dtype: torch.dtype) -> None:
    problem = tiny_problem(dtype=dtype)
    assert problem.train.taps is None and len(list(problem.train.singly(ROWS))) == len(ROWS)
    assert Objective(problem.flat, problem.train.readout, examples(), autocast=torch.bfloat16).taps is None


def test_a_layer_of_an_unknown_kind_is_not_tapped() -> None:
    model = model_of()
    model.get_submodule("bert.encoder.layer.0.attention.self.key").__class__ = Odd
    assert taps_of(problem_of(model, examples()).flat) is None


def test_a_parameter_that_takes_no_part_has_a_gradient_of_zeros() -> None:
    model = model_of()
    dropout = model.get_submodule("bert.encoder.layer.1.output.dropout")
    dropout.register_forward_hook(lambda _, __, out: 0 * out.detach())
    problem = problem_of(model, examples())
    parameters = problem.table.parameters
    parts = difference_gradients(problem.train, ROWS)[1].split([parameter.size for parameter in parameters], dim=-1)
    unused = problem.table.names.index("bert.encoder.layer.1.output.dense.weight")
    assert problem.train.taps is not None and not parts[unused].any() and parts[unused - 4].any()


def test_parameters_ask_for_gradients_as_before() -> None:
    problem = tiny_problem()
    before, kept = problem.train.backward(), problem.flat.grad.clone()
    list(problem.train.singly(ROWS))
    assert problem.train.backward() == before and torch.equal(problem.flat.grad, kept)
    assert not any(tap.layer._forward_hooks for tap in problem.train.taps or ())


@pytest.mark.nightly
@pytest.mark.parametrize("family", [name for name in families.FAMILIES if name != "canine"])  # padding affects it
def test_in_every_family_they_are_autograds(family: str) -> None:
    readout = family_readout(family)
    model = family_model(family, readout)
    model.config.pad_token_id, model.config.eos_token_id = PAD, MASK  # an example has one mask
    is_autograds(problem_of(model, examples(readout), readout))


class Wrapped(nn.Module):
    """A layer that its block calls in another way than one linear layer on the examples in order."""

    def __init__(self, dense: nn.Linear, way: Callable[[nn.Linear, Tensor], Tensor]) -> None:
        super().__init__()
        self.dense, self.way = dense, way

    def forward(self, x: Tensor) -> Tensor:
        return self.way(self.dense, x)


def flattened(dense: nn.Linear, x: Tensor) -> Tensor:
    """Pass the first tokens of all examples, then the second ones, and so on."""
    return dense(x.transpose(0, 1).flatten(0, 1)).view(x.shape[1], x.shape[0], -1).transpose(0, 1)


WAYS: dict[str, Callable[[nn.Linear, Tensor], Tensor]] = {
    "called twice": lambda dense, x: dense(x) + dense(2 * x),  # like in a model with shared layers
    "used outside the call": lambda dense, x: dense(x) + 0.1 * nn.functional.linear(x, dense.weight),
    "flattened": flattened,
    "in another order": lambda dense, x: dense(x.flip(0)).flip(0),
}


class Odd(nn.Linear):
    """A layer of an unknown kind."""


@pytest.mark.parametrize("way", WAYS)
def test_a_pass_that_does_not_give_them_is_seen(way: str) -> None:
    model = model_of()
    block = model.get_submodule("bert.encoder.layer.1.attention.self")
    block.query = Wrapped(block.query, WAYS[way])
    problem = problem_of(model, examples())
    assert taps_of(problem.flat) is not None and problem.train.taps is None
    assert len(list(problem.train.singly(ROWS))) == len(ROWS)
    is_autograds(problem)
