"""The engine on a CUDA device: the same regions' sizes, the same gradients as on the processor, and exact grafts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skillviz.core.localizers.table import LOCALIZERS, LinearizedOptions
from skillviz.core.problem import Problem
from skillviz.core.purify import PurifyOptions, purify
from skillviz.core.region import Region
from skillviz.core.stability import bootstrap_regions, stability
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


def test_the_same_entries_as_on_the_processor_where_no_search_is_needed() -> None:
    for name in ("biases", "layers", "kinds", "movement"):
        orders = [finish(start(name, on(device), 50))[1].order for device in ("cuda", "cpu")]
        assert np.array_equal(*orders), name
    both = [set(finish(start("fisher", on(device), 200))[1].order.tolist()) for device in ("cuda", "cpu")]
    assert len(both[0] & both[1]) > 190


@pytest.mark.parametrize("within", ["all", "biases"])
def test_purification_and_the_mask_within_the_biases(within: str) -> None:
    problem = on("cuda")
    order = finish(start("learned-ranked", problem, 40, within=within))[1].order
    union = Region.from_flat(order, problem.table.shapes)
    found = purify([problem, Problem(problem.flat, problem.base, problem.finetuned, problem.train)], union)
    assert len(found.history) == 10 and found.lr > 0
    mended = purify([problem], union, options=PurifyOptions(delete_only=True))
    assert not mended.added
    assert torch.equal(problem.flat.theta, problem.base)


def test_bootstrap_regions() -> None:
    problem = on("cuda")
    found = bootstrap_regions(problem, 40, resamples=3, options=LinearizedOptions(iterations=20))
    assert {region.size for region in found.regions} == {40} and stability(found.regions).pairs == 3
    assert torch.equal(problem.flat.theta, problem.base)
