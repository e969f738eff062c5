"""Tests that loss and gradient, also of single examples, are plain autograd's, that grafts are exact, and of draws."""

import copy
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core import architectures as families
from skillviz.core.encoded import Encoded
from skillviz.core.flat import FlatModel
from skillviz.core.objective import Objective, Shards
from skillviz.core.problem import Problem
from skillviz.core.readout import HeadReadout
from skillviz.core.single_gradients import taps_of
from skillviz.errors import BadData, BadModel
from tests.core.problems import (
    MASK,
    PAD,
    difference_gradients,
    examples,
    model_of,
    one_by_one,
    problem_and_twin,
    problem_of,
    problem_with,
    table_of,
    tiny_problem,
)
from tests.refused import refuses
from tests.tiny import FAMILIES, tiny_model
from tests.tiny_families import family_model, family_readout


def backward(problem: Problem, rows: np.ndarray | None = None) -> tuple[float, torch.Tensor]:
    return problem.train.backward(rows), problem.flat.grad.clone()


def test_with_targets_the_loss_is_the_cross_entropy_with_them() -> None:
    encoded, model, rows = examples(n=8, labels=3), model_of(labels=3), np.array([6, 1, 2])
    targets = np.random.default_rng(0).dirichlet(np.ones(3), len(encoded))
    problem, twin = problem_and_twin(model, replace(encoded, targets=targets), micro_tokens=40)
    at = problem.base.double().requires_grad_()
    log_p = twin.logits_at(at, rows).log_softmax(1)
    wanted = sum(-p * log_p[i, c] for i, row in enumerate(rows) for c, p in enumerate(targets[row])) / len(rows)
    loss, grad = backward(problem, rows)
    assert loss == pytest.approx(wanted.item(), rel=2e-6) == problem.train.loss(rows)
    gradient = torch.autograd.grad(wanted, at)[0]
    np.testing.assert_allclose(grad.numpy(), gradient.numpy(), rtol=1e-4, atol=2e-6 * float(gradient.abs().max()))
    assert loss != pytest.approx(backward(problem_of(model, encoded), rows)[0], rel=1e-3), "labels would pass"
    batches = problem.train.batches
    assert not batches.padded(rows, 5).labels[len(rows) :].any()
    assert np.array_equal(batches.encoded.take(rows).targets, targets[rows])


def is_near(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Return whether a float32 gradient has the direction of another."""
    return found.dtype == torch.float32 and float(torch.cosine_similarity(found, wanted, dim=0)) > 0.99


@pytest.mark.parametrize(
    ("family", "readout"),
    [("bert", "head"), ("distilbert", "prompt"), ("gpt2", "causal"), ("gpt_neox", "head"), ("llama", "causal")],
)
def test_loss_and_gradient_are_autograds(family: str, readout: str) -> None:
    encoded, model, rows = examples(readout, 8, 3), model_of(family, readout, labels=3), np.array([6, 1, 2, 5, 7])
    problem, twin = problem_and_twin(model, encoded, readout, micro_tokens=40)
    (loss, grad), again = backward(problem, rows), backward(problem, rows)
    base = problem.base.double().numpy()
    (wanted_loss, wanted), (_, off) = (twin.loss_and_gradient(base, at) for at in (rows, rows - 1))
    assert loss == pytest.approx(wanted_loss, rel=2e-6) and again[0] == loss and torch.equal(again[1], grad)
    # float32 against float64: 2e-6 of the largest entry
    np.testing.assert_allclose(grad.numpy(), wanted, rtol=1e-4, atol=2e-6 * np.abs(wanted).max())
    assert np.abs(off - wanted).max() > 1e-2 * np.abs(wanted).max(), "rows off by one would pass"


def test_in_float64_the_gradient_is_exact_to_float32() -> None:
    """With the same engine on a float64 model, only one rounding of each entry to float32 remains."""
    problem, twin = problem_and_twin(model_of(), examples(n=6), dtype=torch.float64)
    wanted = twin.loss_and_gradient(problem.base.numpy(), np.arange(6))[1]
    # One rounding to float32 for each entry; atol is for gradients that are zero except for rounding.
    np.testing.assert_allclose(backward(problem)[1].numpy(), wanted, rtol=1e-7, atol=1e-12)


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("gpt2", "causal")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_micro_batches_change_nothing(family: str, readout: str, dtype: torch.dtype) -> None:
    # One example at a time only reorders sums (float32 rounding); a bfloat16 gradient is rounded once per micro-batch.
    rtol = 1e-5 if dtype == torch.float32 else 3e-2
    (whole, wanted), *cut = (
        backward(tiny_problem(family, readout, n=9, dtype=dtype, micro_tokens=limit)) for limit in (100_000, 1, 30)
    )
    assert [loss for loss, _ in cut] == pytest.approx([whole, whole], rel=rtol)
    assert max(float((grad - wanted).norm()) for _, grad in cut) <= rtol * float(wanted.norm())


def test_a_bfloat16_model_gives_a_float32_gradient_through_its_hooks() -> None:
    problem, exact = tiny_problem(dtype=torch.bfloat16), tiny_problem()
    assert problem.flat.theta.dtype == torch.bfloat16 and problem.tau.dtype == torch.float32
    exact.flat.theta.copy_(problem.base.float())
    assert is_near(backward(problem)[1], backward(exact)[1])  # bfloat16 has eight bits
    assert {p.grad for p in problem.flat.parameters} == {None}, "a narrow gradient was kept"


@pytest.mark.parametrize("autocast", [torch.bfloat16, torch.float16])
@problem_with(n=6)
def test_autocast_narrows_activations_only(problem: Problem, autocast: torch.dtype) -> None:
    narrow = Objective(problem.flat, HeadReadout(), examples(n=6), autocast=autocast)
    (exact_loss, exact), loss, grad = backward(problem), narrow.backward(), problem.flat.grad
    assert loss == pytest.approx(exact_loss, rel=0.05) and loss != exact_loss
    assert is_near(grad, exact) and narrow.logits().dtype == np.float32


@pytest.mark.slow
@pytest.mark.parametrize("where", ["activations", "model"])
def test_float16_does_not_round_an_examples_share_away(where: str) -> None:
    """With a confident model and a large batch, each share of the mean gradient is below float16's range."""
    dtype, autocast = (torch.float32, torch.float16) if where == "activations" else (torch.float16, None)
    problem = tiny_problem(n=4, dtype=dtype)
    problem.flat.model.classifier.weight.data.mul_(7)
    problem.train = Objective(
        problem.flat, HeadReadout(), replace(examples(n=4), labels=problem.train.logits().argmax(1)), autocast=autocast
    )
    few, many = backward(problem), backward(problem, np.tile(np.arange(4), 250))
    assert few[0] < 1e-3 and many[0] == pytest.approx(few[0], rel=1e-2)
    assert float((many[1] - few[1]).norm() / few[1].norm()) < 0.01  # 0.04 if each share is rounded


@problem_with(n=10, micro_tokens=25)
def test_logits_keep_the_order_of_the_rows_repeats_included(problem: Problem) -> None:
    rows = np.array([7, 2, 2, 9, 0, 7])
    everything = problem.train.logits()
    np.testing.assert_allclose(problem.train.logits(rows), everything[rows], rtol=1e-5, atol=1e-6)
    assert everything.dtype == np.float32 and np.unique(everything[:, 0]).size == 10, "the scores tell rows apart"


def test_loss_and_accuracy_follow_the_scores() -> None:
    train, rows = tiny_problem(n=10, labels=4).train, np.array([1, 5, 6])
    scores, labels = torch.from_numpy(train.logits(rows)).double(), torch.from_numpy(train.labels[rows])
    assert (
        train.loss(rows)
        == pytest.approx(torch.nn.functional.cross_entropy(scores, labels).item(), rel=1e-6)
        == pytest.approx(train.backward(rows), rel=1e-5)
    )
    assert train.accuracy(rows) == (scores.argmax(1) == labels).double().mean()


@pytest.mark.parametrize(("family", "readout", "labels"), [("bert", "head", 4), ("gpt2", "causal", 2)])
def test_each_examples_gradients_are_autograds(family: str, readout: str, labels: int) -> None:
    encoded, model, rows = examples(readout, n=4, labels=labels), model_of(family, readout, labels), np.array([0, 3, 1])
    problem, twin = problem_and_twin(model, encoded, readout)
    wanted = np.stack([twin.difference_gradients(problem.base.double().numpy(), int(row)) for row in rows])
    for objective in (problem.train, one_by_one(problem)):
        logits, gradients = difference_gradients(objective, rows)
        np.testing.assert_allclose(logits, objective.logits(rows), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(gradients, wanted, rtol=1e-4, atol=3e-6 * np.abs(wanted).max())  # float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_gradient_that_is_handed_over_is_not_kept_and_later_ones_are(dtype: torch.dtype) -> None:
    """For every dtype, steps before and after give the same gradient; parameters that no pass reaches get zeros."""
    problem = tiny_problem(dtype=dtype)
    unused = problem.table.names.index("bert.encoder.layer.1.output.dense.bias")
    before, handed = backward(problem)[1], dict[int, torch.Tensor]()
    with problem.flat.handing_to(lambda number, gradient: handed.update({number: gradient.clone()})):
        sum(p.sum() for n, p in enumerate(problem.flat.parameters) if n != unused).backward()  # type: ignore[union-attr]
        assert all(p.grad is None for p in problem.flat.parameters)
    assert torch.equal(problem.flat.grad, before) and sorted(handed) == list(range(len(problem.table.names)))
    assert all(g.dtype == torch.float32 and bool((g == (n != unused)).all()) for n, g in handed.items())
    assert torch.equal(backward(problem)[1], before)


def test_only_the_blocks_get_a_gradient_and_dropout_is_off() -> None:
    model = tiny_model("bert", "head", hidden_dropout_prob=0.5)
    problem = problem_of(model.train(), examples())
    assert problem.train.backward() == problem.train.backward()
    assert {name for name, p in model.named_parameters() if p.requires_grad} == set(problem.table.names)


def test_theta_is_the_model() -> None:
    model = model_of()
    before = copy.deepcopy(model.state_dict())
    flat = FlatModel(model, table_of(model))
    moved = {name: tensor + (name in flat.table.names) for name, tensor in before.items()}
    for step, wanted in ((0, before), (1, moved), (-1, before)):
        flat.theta.copy_(flat.gather(before) if step < 0 else flat.theta + step)
        assert [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, wanted[name])] == []


def test_a_model_of_two_dtypes_and_no_examples_are_refused() -> None:
    model, empty = model_of(), Encoded([], [], np.array([], dtype=np.int64), 2)
    refuses(BadData, "no examples", Objective, TEN.flat, HeadReadout(), empty)
    model.bert.encoder.layer[0].output.dense.bfloat16()
    refuses(BadModel, "several dtypes", FlatModel, model, table_of(model))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_weight_shared_by_two_blocks_gets_both_gradients(dtype: torch.dtype) -> None:
    encoded, model = examples(n=5), model_of()
    first, second = model.bert.encoder.layer
    second.output.dense.weight = first.output.dense.weight
    problem, twin = problem_and_twin(model, encoded, dtype=dtype)
    assert problem.d == tiny_problem().d - 16 * 32
    wanted = twin.loss_and_gradient(problem.base.double().numpy(), np.arange(5))[1]
    np.testing.assert_allclose(
        backward(problem)[1].numpy(), wanted, rtol=1e-4, atol=2e-6 * np.abs(wanted).max()
    )  # float32


def test_parts_of_a_batch_are_summed_on_their_own_and_in_order() -> None:
    problem, rows = tiny_problem(n=12, micro_tokens=24), np.arange(11)
    halves = [(backward(problem, part), len(part) / 11) for part in np.array_split(rows, 2)]
    whole, whole_grad = backward(problem, rows)
    problem.train.shards = Shards(2)
    loss, grad = backward(problem, rows)
    torch.testing.assert_close(grad, sum(part_grad * share for (_, part_grad), share in halves))
    assert loss == pytest.approx(sum(part * share for (part, _), share in halves)) == pytest.approx(whole)
    assert not torch.equal(whole_grad, grad), "another order of the sum"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_region_is_copied_entry_by_entry_and_its_ends_are_exact(family: str, dtype: torch.dtype) -> None:
    problem = tiny_problem(family, dtype=dtype)
    chosen = torch.randperm(problem.d, generator=torch.Generator().manual_seed(0))[:500]
    for entries in (torch.arange(problem.d), torch.arange(0), chosen):
        inside = torch.zeros(problem.d, dtype=torch.bool).index_fill(0, entries, True)
        problem.set_region(entries)
        assert torch.equal(problem.flat.theta, torch.where(inside, problem.finetuned, problem.base))
        assert dtype == torch.float32 or torch.equal(
            problem.flat.theta.float(), problem.base.float() + inside * problem.tau
        )
    assert not torch.equal(problem.flat.theta, problem.base)
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


@problem_with(dtype=torch.bfloat16)
def test_movements_too_small_for_bfloat16_are_kept(problem: Problem) -> None:
    exact = problem.finetuned.double() - problem.base.double()
    assert torch.equal(problem.tau.double(), exact), "a difference of two bfloat16 is exact in float32"
    assert not torch.equal((problem.finetuned - problem.base).double(), exact), "bfloat16 would round it"


def test_base_comes_back_when_the_body_raises(problem: Problem) -> None:
    with pytest.raises(RuntimeError, match="planted"), problem.at_base_afterwards():
        problem.set_region(torch.arange(100))
        raise RuntimeError("planted")
    assert torch.equal(problem.flat.theta, problem.base)


TEN = tiny_problem(n=10)


@settings(max_examples=30, deadline=None)
@given(size=st.integers(1, 25), seed=st.integers(0, 5))
def test_draws(size: int, seed: int) -> None:
    n, a_round = 10, 10 // min(size, 10)
    drawn, again = (np.stack(list(islice(TEN.draws(size, seed), 12))) for _ in range(2))
    assert np.array_equal(drawn, again) and drawn.shape == (12, min(size, n)) and set(drawn.flat) <= set(range(n))
    assert {len(set(rows)) for rows in drawn.tolist()} == {min(size, n)}
    assert len(set(drawn[:a_round].flat)) == a_round * min(size, n), "an example came twice in one epoch"


def test_draws_differ_by_seed_and_epoch() -> None:
    first, second = islice(TEN.draws(10, 0), 2)
    assert not np.array_equal(first, second) and not np.array_equal(first, next(TEN.draws(10, 1)))


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


def test_a_parameter_that_takes_no_part_has_a_gradient_of_zeros(problem: Problem) -> None:
    problem.flat.model.get_submodule("bert.encoder.layer.1.output.dropout").register_forward_hook(
        lambda _, __, out: 0 * out.detach()
    )
    parts = difference_gradients(problem.train, ROWS)[1].split(
        [parameter.size for parameter in problem.table.parameters], dim=-1
    )
    unused = problem.table.names.index("bert.encoder.layer.1.output.dense.weight")
    assert problem.train.taps is not None and not parts[unused].any() and parts[unused - 4].any()


def test_parameters_ask_for_gradients_as_before(problem: Problem) -> None:
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


class Wrapped(torch.nn.Module):
    """A layer that its block calls in another way than one linear layer on the examples in order."""

    def __init__(self, dense: torch.nn.Linear, way: Callable[[torch.nn.Linear, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.dense, self.way = dense, way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.way(self.dense, x)


WAYS: dict[str, Callable[[torch.nn.Linear, torch.Tensor], torch.Tensor]] = {
    "called twice": lambda dense, x: dense(x) + dense(2 * x),  # like in a model with shared layers
    "used outside the call": lambda dense, x: dense(x) + 0.1 * torch.nn.functional.linear(x, dense.weight),
    # The first tokens of all examples, then the second ones, and so on.
    "flattened": lambda dense, x: (
        dense(x.transpose(0, 1).flatten(0, 1)).view(x.shape[1], x.shape[0], -1).transpose(0, 1)
    ),
    "in another order": lambda dense, x: dense(x.flip(0)).flip(0),
}


class Odd(torch.nn.Linear):
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
