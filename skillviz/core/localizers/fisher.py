"""FISH mask: the entries of largest Fisher information of the base model on the task (paper, Table 8)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from skillviz.core.localizers.record import Search, Selection, State, Step, done, number
from skillviz.core.localizers.simple import unmoved_note
from skillviz.core.localizers.table import FisherOptions
from skillviz.core.objective import Objective
from skillviz.core.problem import Problem
from skillviz.core.ranking import top

REPORT_EVERY = 64


def fisher(problem: Problem, size: int, *, seed: int, options: FisherOptions, resume: State | None = None) -> Search:
    """The `size` entries with the largest mean over examples of E_{y ~ p(y|x)} (d log p(y|x) / d theta)^2.

    At the base, with the expectation over the classes taken exactly, so no label is looked at. One forward and
    n - 1 backwards an example. Nothing of the fine-tuned model is used but its head (Sung et al. 2021).
    """
    begun, objective = perf_counter(), problem.train
    # in ascending order: equal sets of examples then give equal sums
    rows = np.sort(next(problem.draws(options.examples, seed)))
    total, behind = -(-len(rows) // REPORT_EVERY), done(resume)
    summed = torch.zeros(problem.d, device=problem.flat.device)
    loss = float(resume["loss"]) if resume else 0.0
    if resume:
        summed.copy_(resume["summed"])
    with problem.at_base_afterwards():
        problem.reset()
        for step in range(behind + 1, total + 1):
            for row in rows[(step - 1) * REPORT_EVERY : step * REPORT_EVERY]:
                loss += add_information(objective, int(row), summed)
            seen, last = min(step * REPORT_EVERY, len(rows)), step == total
            state, added = partial(_state, step, loss, summed), size if last else 0
            yield Step(step, loss / seen, added, added, 0, perf_counter() - begun, total, state)
    order = top(summed, size)
    moved = int((problem.tau[order] != 0).sum())
    note = f"Fisher information of the base on {len(rows):,} examples, expected over the classes."
    return Selection(order.cpu().numpy(), (note, *unmoved_note(moved, size)))


def add_information(objective: Objective, row: int, summed: Tensor) -> float:
    """The loss of one example in nats; its expected squared gradients [d] are added to `summed`.

    d log p(c) is h_c - sum_k p_k h_k, with h_c the gradient of logit c minus logit 0: the expectation is the
    variance of h_c under p. It is summed up class by class (West 1979), each term a square: nothing cancels.
    """
    logits, passes = objective.differences(row)
    log_p = logits.double().log_softmax(0)
    p = log_p.exp().tolist()
    sizes = [parameter.size for parameter in objective.flat.table.parameters]
    sums = summed.split(sizes)
    # the last class needs no mean after it, and two classes none at all
    means = torch.zeros_like(summed).split(sizes) if len(p) > 2 else ()
    weight = p[0]
    for c, backward in enumerate(passes, start=1):
        before, weight = weight, weight + p[c]
        if weight > 0:
            backward(partial(_add, sums, means, p[c] * before / weight, p[c] / weight, c + 1 == len(p)))
    return -float(log_p[int(objective.labels[row])])


def _add(
    sums: Sequence[Tensor], means: Sequence[Tensor], squares: float, share: float, last: bool,
    number: int, gradient: Tensor,
) -> None:  # fmt: skip
    """Adds one class's gradient of one parameter to its sum of squares, and to its mean so far."""
    change = gradient - means[number] if means else gradient
    sums[number].addcmul_(change, change, value=squares)
    if not last:
        means[number].add_(change, alpha=share)


def _state(step: int, loss: float, summed: Tensor) -> State:
    return {"step": number(step), "loss": number(loss), "summed": summed}
