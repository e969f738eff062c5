"""Tests of the published loop in the speed benchmark: it has the regions of `learned`, step by step."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from skillviz.core.localizers.learned import learned
from skillviz.core.localizers.record import LocalizerStep, Selection
from skillviz.core.localizers.table import LearnedOptions
from skillviz.core.problem import Problem
from tests.core.problems import examples, model_of, problem_of, table_of
from tests.reference.published_loop import LENGTH, ReferenceLoop

N, STEPS, LR = 16, 6, 1e6
# The comparison omits two settings of the paper: both sides use all examples at every step, so that order does not
# matter, and start from the same mask (the paper's threshold omits the s-th largest movement).


def both(lr: float) -> tuple[Problem, ReferenceLoop]:
    """Return our problem and the published loop on one pair, in float64: different masks then mean different steps."""
    train, validation = examples(n=N), examples(n=N, seed=7)
    problem = problem_of(model_of(), train, dtype=torch.float64, selection=validation)

    def at(theta: torch.Tensor) -> nn.Module:
        problem.flat.theta.copy_(theta)
        plain = copy.deepcopy(problem.flat.model)
        problem.reset()
        return plain

    names = table_of(problem.flat.model).names
    return problem, ReferenceLoop(
        at(problem.base), at(problem.finetuned), names, train, validation, lr=lr, base_share=0.01, length=20, seed=5
    )


def flat(loop: ReferenceLoop, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensors[name].flatten() for name in loop.names])


def steps_of(
    problem: Problem, loop: ReferenceLoop, lr: float, steps: int = STEPS
) -> tuple[list[LocalizerStep], list[Any], Selection]:
    """Return our steps, our scores S after each step, and the selection."""
    base = tuple(flat(loop, loop.base).nonzero().squeeze(1).tolist())
    options = LearnedOptions(
        steps=steps, batch_size=N, lr=lr, base_indices=base, selection="train+validation", score_every=1
    )
    search, taken, scores = learned(problem, 1, seed=5, options=options), [], []
    while True:
        try:
            taken.append(next(search))
        except StopIteration as end:
            return taken, scores, end.value
        assert taken[-1].state is not None
        scores.append({name: value.clone() for name, value in taken[-1].state.items()})


def test_the_published_loop_takes_the_steps_of_learned() -> None:
    problem, loop = both(LR)
    taken, states, chosen = steps_of(problem, loop, LR)
    before = int(flat(loop, loop.base).sum())
    assert 0 < before < 0.01 * problem.d
    for ours, state in zip(taken, states, strict=True):
        theirs = loop.step()
        assert theirs.size == ours.size and theirs.loss == pytest.approx(ours.loss, rel=1e-6)
        # S is float32 in both; near a flip each step multiplies the rounding error.
        torch.testing.assert_close(flat(loop, loop.scores), state["scores"], rtol=1e-2, atol=1e-2)
        assert torch.equal(flat(loop, loop.scores) > loop.bias, state["scores"] > loop.bias)
    assert taken[-1].size > 2 * before, "nothing flips: the comparison would say nothing"
    assert loop.best_step == int(states[-1]["best_step"]) > 0 and loop.best_score == float(states[-1]["best_score"])
    assert np.array_equal(np.sort(chosen.order), flat(loop, loop.best).nonzero().squeeze(1).numpy())
    graft = problem.base.clone()
    graft[torch.as_tensor(chosen.order)] = problem.finetuned[torch.as_tensor(chosen.order)]
    loop._graft({name: mask.double() for name, mask in loop.best.items()})
    torch.testing.assert_close(flat(loop, dict(loop.model.named_parameters())), graft)


def test_another_rule_of_the_mask_would_be_noticed() -> None:
    problem, loop = both(LR)
    states = steps_of(problem, loop, LR, steps=2)[1]
    loop.base = {name: torch.zeros_like(mask) for name, mask in loop.base.items()}  # wrong sign inside the base
    loop.step(), loop.step()
    assert float((flat(loop, loop.scores) - states[-1]["scores"]).abs().max()) > 1.0


def test_inputs_are_padded_to_the_published_length_in_micro_batches_of_eight() -> None:
    loop = both(1.0)[1]
    loop.length = LENGTH
    first, second = [inputs for inputs, _ in loop._batches(loop.train, np.arange(11))]
    assert ([tuple(one["input_ids"].shape) for one in (first, second)], int(first["attention_mask"].sum())) == (
        [(8, 128), (3, 128)],
        sum(map(len, loop.train.input_ids[:8])),
    )
