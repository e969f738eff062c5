"""Tests that the engine's loss and gradient equal those of plain autograd on an untouched copy of the model."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from skillviz.core.encoded import Encoded
from skillviz.core.flat import FlatModel
from skillviz.core.objective import Objective
from skillviz.core.readout import HeadReadout
from skillviz.core.shards import Shards
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

CASES = [("bert", "head"), ("distilbert", "prompt"), ("gpt2", "causal"), ("gpt_neox", "head"), ("llama", "causal")]


@pytest.mark.parametrize(("family", "readout"), CASES)
def test_loss_and_gradient_are_autograds(family: str, readout: str) -> None:
    encoded, model = examples(readout, n=8, labels=3), model_of(family, readout, labels=3)
    twin = PlainModel(model, table_of(model).names, encoded, readout)
    problem = problem_of(model, encoded, readout, micro_tokens=40)
    rows = np.array([6, 1, 2, 5, 7])
    loss = problem.train.backward(rows)
    wanted_loss, wanted = twin.loss_and_gradient(problem.base.double().numpy(), rows)
    grad = problem.flat.grad.numpy()
    assert loss == pytest.approx(wanted_loss, rel=2e-6)
    # float32 against float64: 2e-6 of the largest entry
    np.testing.assert_allclose(grad, wanted, rtol=1e-4, atol=2e-6 * np.abs(wanted).max())
    off = twin.loss_and_gradient(problem.base.double().numpy(), rows - 1)[1]
    assert np.abs(off - wanted).max() > 1e-2 * np.abs(wanted).max(), "rows off by one would pass"
    assert problem.train.backward(rows) == loss and np.array_equal(problem.flat.grad.numpy(), grad)


def test_in_float64_the_gradient_is_exact_to_float32() -> None:
    """With the same engine on a float64 model, only one rounding of each entry to float32 remains."""
    encoded, model = examples(n=6), model_of()
    twin = PlainModel(model, table_of(model).names, encoded, "head")
    problem = problem_of(model, encoded, dtype=torch.float64)
    problem.train.backward()
    wanted = twin.loss_and_gradient(problem.base.numpy(), np.arange(6))[1]
    # One rounding to float32 for each entry; atol is for gradients that are zero except for rounding.
    np.testing.assert_allclose(problem.flat.grad.numpy(), wanted, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("gpt2", "causal")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_micro_batches_change_nothing(family: str, readout: str, dtype: torch.dtype) -> None:
    found = {}
    for limit in (1, 30, 100_000):
        problem = tiny_problem(family, readout, n=9, dtype=dtype, micro_tokens=limit)
        found[limit] = problem.train.backward(), problem.flat.grad.clone()
    # One example at a time only reorders sums (float32 rounding); a bfloat16 gradient is rounded once per micro-batch.
    rtol = 1e-5 if dtype == torch.float32 else 3e-2
    loss, grad = found[100_000]
    for limit in (1, 30):
        assert found[limit][0] == pytest.approx(loss, rel=rtol)
        assert float((found[limit][1] - grad).norm()) <= rtol * float(grad.norm())


def test_a_bfloat16_model_gives_a_float32_gradient_through_its_hooks() -> None:
    problem = tiny_problem(dtype=torch.bfloat16)
    assert problem.flat.theta.dtype == torch.bfloat16 and problem.tau.dtype == torch.float32
    problem.train.backward()
    grad = problem.flat.grad
    assert grad.dtype == torch.float32 and bool(grad.abs().max() > 0)
    assert all(p.grad is None for p in problem.flat.parameters), "a narrow gradient was kept"
    exact = tiny_problem()
    exact.flat.theta.copy_(problem.base.float())
    exact.train.backward()
    cosine = torch.cosine_similarity(grad, exact.flat.grad, dim=0)
    assert float(cosine) > 0.99  # bfloat16 has eight bits


@pytest.mark.parametrize("autocast", [torch.bfloat16, torch.float16])
def test_autocast_narrows_activations_only(autocast: torch.dtype) -> None:
    problem = tiny_problem(n=6)
    narrow = Objective(problem.flat, HeadReadout(), examples(n=6), autocast=autocast)
    exact_loss = problem.train.backward()
    exact = problem.flat.grad.clone()
    loss = narrow.backward()
    assert problem.flat.grad.dtype == torch.float32 and loss != exact_loss
    assert loss == pytest.approx(exact_loss, rel=0.05)
    assert float(torch.cosine_similarity(problem.flat.grad, exact, dim=0)) > 0.99
    assert narrow.logits().dtype == np.float32


@pytest.mark.slow
@pytest.mark.parametrize("where", ["activations", "model"])
def test_float16_does_not_round_an_examples_share_away(where: str) -> None:
    """With a confident model and a large batch, each share of the mean gradient is below float16's range."""
    problem = tiny_problem(n=4, dtype=torch.float32 if where == "activations" else torch.float16)
    problem.flat.model.classifier.weight.data.mul_(7)
    encoded = replace(examples(n=4), labels=problem.train.logits().argmax(1))
    narrow = Objective(problem.flat, HeadReadout(), encoded, autocast=torch.float16 if where == "activations" else None)
    few = narrow.backward(), problem.flat.grad.clone()
    many = narrow.backward(np.tile(np.arange(4), 250)), problem.flat.grad.clone()
    assert few[0] < 1e-3 and many[0] == pytest.approx(few[0], rel=1e-2)
    assert float((many[1] - few[1]).norm() / few[1].norm()) < 0.01  # 0.04 if each share is rounded


def test_logits_keep_the_order_of_the_rows_repeats_included() -> None:
    problem = tiny_problem(n=10, micro_tokens=25)
    everything = problem.train.logits()
    rows = np.array([7, 2, 2, 9, 0, 7])
    np.testing.assert_allclose(problem.train.logits(rows), everything[rows], rtol=1e-5, atol=1e-6)
    assert np.unique(everything[:, 0]).size == 10, "the scores must tell rows apart"
    assert everything.dtype == np.float32


def test_loss_and_accuracy_follow_the_scores() -> None:
    problem = tiny_problem(n=10, labels=4)
    rows = np.array([1, 5, 6])
    scores = problem.train.logits(rows).astype(np.float64)
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    labels = problem.train.labels[rows]
    assert problem.train.loss(rows) == pytest.approx(-np.log(p[np.arange(3), labels]).mean(), rel=1e-6)
    assert problem.train.accuracy(rows) == (scores.argmax(1) == labels).mean()
    assert problem.train.loss(rows) == pytest.approx(problem.train.backward(rows), rel=1e-5)


@pytest.mark.parametrize(("family", "readout", "labels"), [("bert", "head", 4), ("gpt2", "causal", 2)])
def test_each_examples_gradients_are_autograds(family: str, readout: str, labels: int) -> None:
    encoded, model = examples(readout, n=4, labels=labels), model_of(family, readout, labels)
    twin = PlainModel(model, table_of(model).names, encoded, readout)
    problem = problem_of(model, encoded, readout)
    rows = np.array([0, 3, 1])
    for objective in (problem.train, one_by_one(problem)):
        logits, gradients = difference_gradients(objective, rows)
        assert gradients.shape == (3, labels - 1, problem.d)
        np.testing.assert_allclose(logits, objective.logits(rows), rtol=1e-5, atol=1e-5)
        for row, found in zip(rows, gradients.numpy(), strict=True):
            wanted = twin.difference_gradients(problem.base.double().numpy(), int(row))
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=3e-6 * np.abs(wanted).max())  # float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_gradient_that_is_handed_over_is_not_kept_and_later_ones_are(dtype: torch.dtype) -> None:
    """For every dtype, steps before and after give the same gradient; parameters that no pass reaches get zeros."""
    problem = tiny_problem(dtype=dtype)
    unused = problem.table.names.index("bert.encoder.layer.1.output.dense.bias")
    problem.train.backward()
    before = problem.flat.grad.clone()
    handed: dict[int, torch.Tensor] = {}
    with problem.flat.handing_to(lambda number, gradient: handed.update({number: gradient.clone()})):
        sum(p.sum() for n, p in enumerate(problem.flat.parameters) if n != unused).backward()  # type: ignore[union-attr]
        assert all(p.grad is None for p in problem.flat.parameters)
    assert torch.equal(problem.flat.grad, before) and sorted(handed) == list(range(len(problem.table.names)))
    assert all(g.dtype == torch.float32 and bool((g == (n != unused)).all()) for n, g in handed.items())
    problem.train.backward()
    assert torch.equal(problem.flat.grad, before)


def test_only_the_blocks_get_a_gradient_and_dropout_is_off() -> None:
    model = model_of()
    model.config.hidden_dropout_prob = 0.5
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    model.train()
    problem = problem_of(model, examples())
    assert problem.train.backward() == problem.train.backward()
    asking = {name for name, p in model.named_parameters() if p.requires_grad}
    assert asking == set(problem.table.names)


def test_theta_is_the_model() -> None:
    model = model_of()
    before = copy.deepcopy(model.state_dict())
    flat = FlatModel(model, table_of(model))
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in before.items())
    flat.theta.add_(1)
    for name, tensor in before.items():
        moved = tensor + 1 if name in flat.table.names else tensor
        assert torch.equal(model.state_dict()[name], moved), name
    flat.theta.copy_(flat.gather(before))
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in before.items())


def test_a_model_of_two_dtypes_is_refused() -> None:
    model = model_of()
    model.bert.encoder.layer[0].output.dense.bfloat16()
    with pytest.raises(BadModel, match="several dtypes"):
        FlatModel(model, table_of(model))


def test_no_examples_are_refused() -> None:
    problem = tiny_problem()
    with pytest.raises(BadData, match="no examples"):
        Objective(problem.flat, HeadReadout(), Encoded([], [], np.array([], dtype=np.int64), 2))


def test_a_weight_shared_by_two_blocks_gets_both_gradients() -> None:
    def shared() -> torch.nn.Module:
        model = model_of()
        layers = model.bert.encoder.layer
        layers[1].output.dense.weight = layers[0].output.dense.weight
        return model

    encoded, model = examples(n=5), shared()
    twin = PlainModel(model, table_of(model).names, encoded, "head")
    for dtype in (torch.float32, torch.float64):
        problem = problem_of(shared(), encoded, dtype=dtype)
        assert problem.d == tiny_problem().d - 16 * 32
        problem.train.backward()
        wanted = twin.loss_and_gradient(problem.base.double().numpy(), np.arange(5))[1]
        grad = problem.flat.grad.numpy()
        np.testing.assert_allclose(grad, wanted, rtol=1e-4, atol=2e-6 * np.abs(wanted).max())  # float32


def test_the_learnable_problem_is_learned() -> None:
    problem = learnable_problem()
    assert problem.train.accuracy() < 0.8 and torch.equal(problem.flat.theta, problem.base)
    problem.set_region(torch.arange(problem.d))
    assert torch.equal(problem.flat.theta, problem.finetuned)
    assert problem.train.accuracy() == 1 and problem.selection is not None and problem.selection.accuracy() > 0.9


def test_parts_of_a_batch_are_summed_on_their_own_and_in_order() -> None:
    problem = tiny_problem(n=12, micro_tokens=24)
    rows = np.arange(11)
    problem.train.shards = Shards(2)
    loss = problem.train.backward(rows)
    grad = problem.flat.grad.clone()
    problem.train.shards = Shards()
    parts, losses = [], []
    for part in np.array_split(rows, 2):
        losses.append(problem.train.backward(part) * len(part) / len(rows))
        parts.append(problem.flat.grad * (len(part) / len(rows)))
    torch.testing.assert_close(grad, parts[0] + parts[1])
    assert loss == pytest.approx(sum(losses))
    whole = problem.train.backward(rows)
    assert whole == pytest.approx(loss) and not torch.equal(problem.flat.grad, grad), "another order of the sum"
