"""Tests of the engine on CUDA: the same sizes of regions and the same gradients as on the CPU, and exact grafts."""

import numpy as np
import pytest
import torch

from skillviz.core.batches import Batch
from skillviz.core.localizers.table import LOCALIZERS, LinearizedOptions
from skillviz.core.other_regions import PurifyOptions, purify
from skillviz.core.problem import Problem
from skillviz.core.recordings import Recordings
from skillviz.core.region import Region
from skillviz.core.stability import bootstrap_regions, stability
from skillviz.errors import BadModel
from tests.core.localizers.test_every_localizer import cut_after, finish, start, told, whole
from tests.core.problems import examples, model_of, problem_of
from tests.core.test_recordings import RECORDABLE, Repeated, recorded

pytestmark = pytest.mark.gpu


def on(device: str, family: str = "bert", readout: str = "head", dtype: torch.dtype = torch.float32) -> Problem:
    encoded, model = examples(readout, n=12, labels=3), model_of(family, readout, labels=3).to(device)
    return problem_of(model, encoded, readout, dtype=dtype, selection=examples(readout, n=6, labels=3, seed=1))


@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("distilbert", "prompt"), ("gpt2", "causal")])
def test_gradients_are_those_of_the_processor(family: str, readout: str) -> None:
    there, here = on("cuda", family, readout), on("cpu", family, readout)
    assert there.train.backward() == pytest.approx(here.train.backward(), rel=1e-4)
    # Other kernels, perhaps without TF32, sum in another order.
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
        assert np.array_equal(*[finish(start(name, on(device), 50))[1].order for device in ("cuda", "cpu")]), name
    both = [set(finish(start("fisher", on(device), 200))[1].order.tolist()) for device in ("cuda", "cpu")]
    assert len(both[0] & both[1]) > 190


@pytest.mark.parametrize("within", ["all", "biases"])
def test_purification_and_the_mask_within_the_biases(within: str) -> None:
    problem = on("cuda")
    union = Region.from_flat(finish(start("learned-ranked", problem, 40, within=within))[1].order, problem.table.shapes)
    found = purify([problem, Problem(problem.flat, problem.base, problem.finetuned, problem.train)], union)
    assert len(found.history) == 10 and found.lr > 0
    assert not purify([problem], union, options=PurifyOptions(delete_only=True)).added
    assert torch.equal(problem.flat.theta, problem.base)


def test_bootstrap_regions() -> None:
    problem = on("cuda")
    found = bootstrap_regions(problem, 40, resamples=3, options=LinearizedOptions(iterations=20))
    assert {region.size for region in found.regions} == {40} and stability(found.regions).pairs == 3
    assert torch.equal(problem.flat.theta, problem.base)


@pytest.mark.parametrize(
    ("family", "readout", "dtype", "autocast"),
    [
        ("bert", "head", torch.float32, None),
        ("bert", "head", torch.bfloat16, None),
        ("bert", "head", torch.float32, torch.bfloat16),
        ("distilbert", "prompt", torch.float32, None),
        ("gpt2", "head", torch.float32, None),
    ],
)
def test_recorded_passes_are_those_that_were_recorded(
    family: str, readout: str, dtype: torch.dtype, autocast: torch.dtype | None
) -> None:
    """CUDA graphs give the results of the same padded passes, also after the weights change and for other rows."""
    twice = [recorded(on("cuda", family, readout, dtype), kind) for kind in (Recordings, Repeated)]
    for seed in range(4):
        rows = np.random.default_rng(seed).permutation(12)[: 8 if seed % 2 else 5]
        found = []
        for problem in twice:
            problem.train.autocast = autocast
            problem.set_region(torch.arange(seed * 100, device="cuda"))
            found.append((problem.train.backward(rows), problem.flat.grad.clone(), problem.train.logits(rows)))
        (loss, gradient, scores), (wanted, slope, answers) = found
        assert loss == pytest.approx(wanted, rel=1e-5), seed
        np.testing.assert_allclose(scores, answers, rtol=1e-4, atol=1e-5)
        assert float((gradient - slope).norm()) <= (1e-5 if dtype == torch.float32 else 1e-2) * float(slope.norm())
    assert 2 <= len(twice[0].train.recordings.kept) <= 8  # type: ignore[union-attr]


@pytest.mark.parametrize("name", RECORDABLE)
def test_a_recorded_search_finds_the_region_of_plain_passes_and_resumes(name: str) -> None:
    (_, plain), (steps, found) = (whole(problem, name, 40) for problem in (on("cuda"), recorded(on("cuda"))))
    assert len(set(found.order.tolist()) & set(plain.order.tolist())) >= 0.9 * len(plain.order)
    before, state = cut_after(recorded(on("cuda")), name, 40, 2)
    after, again = whole(recorded(on("cuda")), name, 40, state)
    assert told(before + after) == told(steps) and np.array_equal(again.order, found.order)


def test_a_model_that_waits_for_the_gpu_is_refused_in_one_sentence() -> None:
    problem = recorded(on("cuda"))
    logits = problem.train.readout.logits

    class Waiting:
        name = "head"

        def logits(self, model: object, batch: Batch) -> torch.Tensor:
            scores = logits(model, batch)
            return scores * float(scores.sum().isfinite())

    problem.train.readout = Waiting()
    with pytest.raises(BadModel, match="leave CUDA graphs out"):
        problem.train.backward()
    problem.train.recordings = None
    assert problem.train.backward() > 0, "the device works on"
