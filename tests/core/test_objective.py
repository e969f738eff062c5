"""Tests that the engine's loss and gradient equal those of plain autograd on an untouched copy of the model."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from skillviz.core.encoded import Encoded
from skillviz.core.flat import FlatModel
from skillviz.core.objective import Objective, Shards
from skillviz.core.problem import Problem
from skillviz.core.readout import HeadReadout
from skillviz.errors import BadData, BadModel
from tests.core.problems import (
    difference_gradients,
    examples,
    learnable_problem,
    model_of,
    one_by_one,
    problem_of,
    table_of,
    tiny_problem,
)
from tests.reference.gradient import PlainModel
from tests.tiny import tiny_model

CASES = [("bert", "head"), ("distilbert", "prompt"), ("gpt2", "causal"), ("gpt_neox", "head"), ("llama", "causal")]


def backward(problem: Problem, rows: np.ndarray | None = None) -> tuple[float, torch.Tensor]:
    """Return the loss on the rows and a copy of its gradient."""
    return problem.train.backward(rows), problem.flat.grad.clone()


def test_with_targets_the_loss_is_the_cross_entropy_with_them() -> None:
    encoded, model, rows = examples(n=8, labels=3), model_of(labels=3), np.array([6, 1, 2])
    targets = np.random.default_rng(0).dirichlet(np.ones(3), len(encoded))
    problem = problem_of(model, replace(encoded, targets=targets), micro_tokens=40)
    twin, at = PlainModel(model, table_of(model).names, encoded, "head"), problem.base.double().requires_grad_()
    log_p = twin.logits_at(at, rows).log_softmax(1)
    wanted = sum(-p * log_p[i, c] for i, row in enumerate(rows) for c, p in enumerate(targets[row])) / len(rows)
    loss, grad = backward(problem, rows)
    assert loss == pytest.approx(wanted.item(), rel=2e-6) == problem.train.loss(rows)
    gradient = torch.autograd.grad(wanted, at)[0]
    np.testing.assert_allclose(grad.numpy(), gradient.numpy(), rtol=1e-4, atol=2e-6 * float(gradient.abs().max()))
    assert loss != pytest.approx(backward(problem_of(model, encoded), rows)[0], rel=1e-3), "labels would pass"
    assert float(problem.train.batches.padded(rows, 5).labels[len(rows) :].abs().sum()) == 0
    assert np.array_equal(problem.train.batches.encoded.take(rows).targets, targets[rows])


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.cosine_similarity(a, b, dim=0))


@pytest.mark.parametrize(("family", "readout"), CASES)
def test_loss_and_gradient_are_autograds(family: str, readout: str) -> None:
    encoded, model, rows = (
        examples(readout, n=8, labels=3),
        model_of(family, readout, labels=3),
        np.array([6, 1, 2, 5, 7]),
    )
    twin = PlainModel(model, table_of(model).names, encoded, readout)
    problem = problem_of(model, encoded, readout, micro_tokens=40)
    (loss, grad), again = backward(problem, rows), backward(problem, rows)
    base = problem.base.double().numpy()
    (wanted_loss, wanted), (_, off) = (twin.loss_and_gradient(base, at) for at in (rows, rows - 1))
    assert loss == pytest.approx(wanted_loss, rel=2e-6) and again[0] == loss and torch.equal(again[1], grad)
    # float32 against float64: 2e-6 of the largest entry
    np.testing.assert_allclose(grad.numpy(), wanted, rtol=1e-4, atol=2e-6 * np.abs(wanted).max())
    assert np.abs(off - wanted).max() > 1e-2 * np.abs(wanted).max(), "rows off by one would pass"


def test_in_float64_the_gradient_is_exact_to_float32() -> None:
    """With the same engine on a float64 model, only one rounding of each entry to float32 remains."""
    encoded, model = examples(n=6), model_of()
    twin = PlainModel(model, table_of(model).names, encoded, "head")
    problem = problem_of(model, encoded, dtype=torch.float64)
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
    for loss, grad in cut:
        assert loss == pytest.approx(whole, rel=rtol)
        assert float((grad - wanted).norm()) <= rtol * float(wanted.norm())


def test_a_bfloat16_model_gives_a_float32_gradient_through_its_hooks() -> None:
    problem, exact = tiny_problem(dtype=torch.bfloat16), tiny_problem()
    assert problem.flat.theta.dtype == torch.bfloat16 and problem.tau.dtype == torch.float32
    exact.flat.theta.copy_(problem.base.float())
    grad, wanted = backward(problem)[1], backward(exact)[1]
    assert all(p.grad is None for p in problem.flat.parameters), "a narrow gradient was kept"
    assert grad.dtype == torch.float32 and cosine(grad, wanted) > 0.99  # bfloat16 has eight bits


@pytest.mark.parametrize("autocast", [torch.bfloat16, torch.float16])
def test_autocast_narrows_activations_only(autocast: torch.dtype) -> None:
    problem = tiny_problem(n=6)
    narrow, (exact_loss, exact) = (
        Objective(problem.flat, HeadReadout(), examples(n=6), autocast=autocast),
        backward(problem),
    )
    loss, grad = narrow.backward(), problem.flat.grad
    assert loss == pytest.approx(exact_loss, rel=0.05) and loss != exact_loss
    assert grad.dtype == torch.float32 and cosine(grad, exact) > 0.99 and narrow.logits().dtype == np.float32


@pytest.mark.slow
@pytest.mark.parametrize("where", ["activations", "model"])
def test_float16_does_not_round_an_examples_share_away(where: str) -> None:
    """With a confident model and a large batch, each share of the mean gradient is below float16's range."""
    dtype, autocast = (torch.float32, torch.float16) if where == "activations" else (torch.float16, None)
    problem = tiny_problem(n=4, dtype=dtype)
    problem.flat.model.classifier.weight.data.mul_(7)
    encoded = replace(examples(n=4), labels=problem.train.logits().argmax(1))
    problem.train = Objective(problem.flat, HeadReadout(), encoded, autocast=autocast)
    few, many = backward(problem), backward(problem, np.tile(np.arange(4), 250))
    assert few[0] < 1e-3 and many[0] == pytest.approx(few[0], rel=1e-2)
    assert float((many[1] - few[1]).norm() / few[1].norm()) < 0.01  # 0.04 if each share is rounded


def test_logits_keep_the_order_of_the_rows_repeats_included() -> None:
    problem, rows = tiny_problem(n=10, micro_tokens=25), np.array([7, 2, 2, 9, 0, 7])
    everything = problem.train.logits()
    np.testing.assert_allclose(problem.train.logits(rows), everything[rows], rtol=1e-5, atol=1e-6)
    assert everything.dtype == np.float32 and np.unique(everything[:, 0]).size == 10, "the scores tell rows apart"


def test_loss_and_accuracy_follow_the_scores() -> None:
    train, rows = tiny_problem(n=10, labels=4).train, np.array([1, 5, 6])
    scores = torch.from_numpy(train.logits(rows)).double()
    labels = torch.from_numpy(train.labels[rows])
    loss = float(torch.nn.functional.cross_entropy(scores, labels))
    assert train.loss(rows) == pytest.approx(loss, rel=1e-6) == pytest.approx(train.backward(rows), rel=1e-5)
    assert train.accuracy(rows) == (scores.argmax(1) == labels).double().mean()


@pytest.mark.parametrize(("family", "readout", "labels"), [("bert", "head", 4), ("gpt2", "causal", 2)])
def test_each_examples_gradients_are_autograds(family: str, readout: str, labels: int) -> None:
    encoded, model, rows = examples(readout, n=4, labels=labels), model_of(family, readout, labels), np.array([0, 3, 1])
    twin = PlainModel(model, table_of(model).names, encoded, readout)
    problem = problem_of(model, encoded, readout)
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
    for change, wanted in (
        (lambda: None, before),
        (lambda: flat.theta.add_(1), moved),
        (lambda: flat.theta.copy_(flat.gather(before)), before),
    ):
        change()
        assert [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, wanted[name])] == []


def test_a_model_of_two_dtypes_and_no_examples_are_refused() -> None:
    model, empty = model_of(), Encoded([], [], np.array([], dtype=np.int64), 2)
    with pytest.raises(BadData, match="no examples"):
        Objective(tiny_problem().flat, HeadReadout(), empty)
    model.bert.encoder.layer[0].output.dense.bfloat16()
    with pytest.raises(BadModel, match="several dtypes"):
        FlatModel(model, table_of(model))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_weight_shared_by_two_blocks_gets_both_gradients(dtype: torch.dtype) -> None:
    encoded, model = examples(n=5), model_of()
    first, second = model.bert.encoder.layer
    second.output.dense.weight = first.output.dense.weight
    twin = PlainModel(model, table_of(model).names, encoded, "head")
    problem = problem_of(model, encoded, dtype=dtype)
    assert problem.d == tiny_problem().d - 16 * 32
    wanted = twin.loss_and_gradient(problem.base.double().numpy(), np.arange(5))[1]
    grad = backward(problem)[1].numpy()
    np.testing.assert_allclose(grad, wanted, rtol=1e-4, atol=2e-6 * np.abs(wanted).max())  # float32


def test_the_learnable_problem_is_learned() -> None:
    problem = learnable_problem()
    assert problem.train.accuracy() < 0.8 and torch.equal(problem.flat.theta, problem.base)
    problem.set_region(torch.arange(problem.d))
    assert torch.equal(problem.flat.theta, problem.finetuned)
    assert problem.train.accuracy() == 1 and problem.selection is not None and problem.selection.accuracy() > 0.9


def test_parts_of_a_batch_are_summed_on_their_own_and_in_order() -> None:
    problem, rows = tiny_problem(n=12, micro_tokens=24), np.arange(11)
    halves = [(backward(problem, part), len(part) / 11) for part in np.array_split(rows, 2)]
    whole, whole_grad = backward(problem, rows)
    problem.train.shards = Shards(2)
    loss, grad = backward(problem, rows)
    torch.testing.assert_close(grad, sum(part_grad * share for (_, part_grad), share in halves))
    assert loss == pytest.approx(sum(part * share for (part, _), share in halves)) == pytest.approx(whole)
    assert not torch.equal(whole_grad, grad), "another order of the sum"
