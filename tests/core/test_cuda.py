"""The engine on a CUDA device: the same regions' sizes, the same gradients as on the processor, and exact grafts."""

from __future__ import annotations

import pytest
import torch

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.problem import Problem
from tests.core.localizers.test_every_localizer import finish, start
from tests.core.problems import examples, model_of, problem_of

pytestmark = pytest.mark.gpu


def on(device: str, family: str = "bert", readout: str = "head", dtype: torch.dtype = torch.float32) -> Problem:
    encoded = examples(readout, n=12, labels=3)
    model = model_of(family, readout, labels=3).to(device)
    return problem_of(model, encoded, readout, dtype=dtype, selection=examples(readout, n=6, labels=3, seed=1))


@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("distilbert", "prompt"), ("gpt2", "causal")])
def test_gradients_are_those_of_the_processor(family: str, readout: str) -> None:
    there, here = on("cuda", family, readout), on("cpu", family, readout)
    assert there.train.backward() == pytest.approx(here.train.backward(), rel=1e-4)
    # other kernels, perhaps TF32-free but summed in another order
    torch.testing.assert_close(there.flat.grad.cpu(), here.flat.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", LOCALIZERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_localizer(name: str, dtype: torch.dtype) -> None:
    problem = on("cuda", dtype=dtype)
    assert problem.flat.theta.is_cuda
    for size in (1, 50, problem.d):
        order = finish(start(name, problem, size))[1].order
        if LOCALIZERS[name].budgeted:
            assert len(set(order.tolist())) == size
        assert torch.equal(problem.flat.theta, problem.base)
    problem.set_region(torch.from_numpy(order).to("cuda"))
    assert not torch.equal(problem.flat.theta, problem.base)
