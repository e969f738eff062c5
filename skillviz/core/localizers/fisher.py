"""FISH mask: the entries of largest Fisher information of the base model on the task (paper, Table 8)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from skillviz.core.localizers.record import LocalizerStep, Search, Selection, State, done, number
from skillviz.core.localizers.table import FisherOptions
from skillviz.core.objective import Objective, Singles
from skillviz.core.problem import Problem
from skillviz.core.ranking import moved_first, top

REPORT_EVERY = 64


def fisher(problem: Problem, size: int, *, seed: int, options: FisherOptions, resume: State | None = None) -> Search:
    """The `size` entries with the largest mean over examples of E_{y ~ p(y|x)} (d log p(y|x) / d theta)^2.

    At the base, with the exact expectation over the classes, so no label is used. One forward and n - 1 backwards per
    example. It uses nothing of the fine-tuned model except its head (Sung et al. 2021), and the set of entries that
    moved: the others are last (ours).
    """
    objective = problem.train
    # in ascending order, so that equal sets of examples give equal sums
    rows = np.sort(next(problem.draws(options.examples, seed)))
    total, behind = -(-len(rows) // REPORT_EVERY), done(resume)
    summed = torch.zeros(problem.d, device=problem.flat.device)
    loss = float(resume["loss"]) if resume else 0.0
    if resume:
        summed.copy_(resume["summed"])
    with problem.at_base_afterwards():
        problem.reset()
        for step in range(behind + 1, total + 1):
            for singles in objective.singly(rows[(step - 1) * REPORT_EVERY : step * REPORT_EVERY]):
                loss += add_information(objective, singles, summed)
            seen, last = min(step * REPORT_EVERY, len(rows)), step == total
            state, added = {"step": number(step), "loss": number(loss), "summed": summed}, size if last else 0
            yield LocalizerStep(step, loss / seen, added, added, 0, total, state)
    order = top(moved_first(summed, problem.tau), size)
    note = f"Fisher information of the base on {len(rows):,} examples, expected over the classes."
    return Selection(order.cpu().numpy(), (note,))


def add_information(objective: Objective, singles: Singles, summed: Tensor) -> float:
    """Return the loss of some examples in nats, and add their expected squared gradients [d] to `summed`.

    d log p(c) is h_c - sum_k p_k h_k, with h_c the gradient of logit c: the expectation is the variance of h_c under p.
    It grows class by class (West 1979) by the square of w_c (h_c - the mean of the classes before): nothing cancels.
    """
    log_p = singles.logits.double().log_softmax(1)
    p = log_p.exp()
    before = p.cumsum(1) - p
    sums = summed.split([parameter.size for parameter in objective.flat.table.parameters])

    def add(_: int, number: int, gradient: Tensor) -> None:
        sums[number].addcmul_(gradient, gradient)

    for c in range(1, objective.n_labels):
        weights = -p / before[:, c : c + 1]
        weights[:, c], weights[:, c + 1 :] = 1, 0
        weights *= (p[:, c] * before[:, c] / (p[:, c] + before[:, c])).sqrt().unsqueeze(1)
        # a class of probability 0, or without a class before it, adds nothing
        weights = weights.nan_to_num(0, 0, 0).to(singles.logits.dtype)
        singles.backward(weights, add, last=c + 1 == objective.n_labels)
    labels = torch.as_tensor(objective.labels[singles.rows]).to(log_p.device)
    return -float(log_p.gather(1, labels.unsqueeze(1)).sum())
