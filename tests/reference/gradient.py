"""Loss, gradient, Fisher information and purification by plain autograd on an untouched copy, one example at a time."""

import copy
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from skillviz.core.encoded import Encoded


class PlainModel:
    """A copy of a model in float64 that gives class scores without padding, batches or views."""

    def __init__(self, model: Any, names: tuple[str, ...], encoded: Encoded, readout: str) -> None:
        self.model = copy.deepcopy(model).double().eval().requires_grad_(False)
        self.shapes = {name: self.model.get_parameter(name).shape for name in names}
        self.encoded, self.readout = encoded, readout

    def logits_at(self, theta: Any, rows: Iterable[int]) -> torch.Tensor:
        """Class scores [row, label] at a vector [d] of the parameters in order, differentiable by that vector."""
        theta, shapes = torch.as_tensor(theta, dtype=torch.float64), self.shapes.items()
        parts = theta.split([shape.numel() for shape in self.shapes.values()])
        values = {name: part.reshape(shape) for (name, shape), part in zip(shapes, parts, strict=True)}

        def scores(ids: torch.Tensor) -> torch.Tensor:
            return torch.func.functional_call(self.model, values, kwargs={"input_ids": ids[None]}).logits[0]

        return torch.stack([self.read(scores, int(row)) for row in rows])

    def read(self, scores: Callable[[torch.Tensor], torch.Tensor], row: int) -> torch.Tensor:
        """Class scores [label] of one example, from the model's scores of token ids."""
        ids = torch.from_numpy(self.encoded.input_ids[row])
        if self.readout == "head":
            return scores(ids)
        if self.readout == "prompt":
            return scores(ids)[int(self.encoded.positions[row])][torch.from_numpy(self.encoded.label_ids)]
        answers = [torch.from_numpy(answer) for answer in self.encoded.answers[row]]
        log_p = [scores(torch.cat([ids, answer]))[len(ids) - 1 : -1].log_softmax(-1) for answer in answers]
        return torch.stack([p[range(len(a)), a].sum() for p, a in zip(log_p, answers, strict=True)])

    def loss_at(self, theta: Any, rows: np.ndarray) -> torch.Tensor:
        """The mean cross-entropy over the rows at a vector [d], differentiable by that vector."""
        return torch.nn.functional.cross_entropy(
            self.logits_at(theta, rows), torch.from_numpy(self.encoded.labels[rows])
        )

    def loss_and_gradient(self, theta: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray]:
        """The mean cross-entropy over the rows and its gradient [d], float64."""
        at = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
        loss = self.loss_at(at, rows)
        return float(loss.detach()), torch.autograd.grad(loss, at)[0].numpy()

    def difference_gradients(self, theta: np.ndarray, row: int) -> np.ndarray:
        """Gradients [label - 1, d] of each logit minus the logit of class 0, for one example."""
        at = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
        first, *others = self.logits_at(at, [row])[0]
        return np.stack([torch.autograd.grad(z - first, at, retain_graph=True)[0].numpy() for z in others])


def slow_fisher(model: PlainModel, theta: np.ndarray, rows: list[int]) -> np.ndarray:
    """mean_x sum_y p(y|x) (d log p(y|x) / d theta)^2, float64 [d], with one backward pass per example and class."""
    total = np.zeros(len(theta))
    for row, label in product(rows, range(model.encoded.n_labels)):
        at = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
        log_p = model.logits_at(at, [row])[0].log_softmax(-1)[label]  # a separate forward pass for each class
        total += float(log_p.detach().exp()) * torch.autograd.grad(log_p, at)[0].numpy() ** 2 / len(rows)
    return total


def slow_purify(
    models: Sequence[PlainModel],
    base: np.ndarray,
    tuned: np.ndarray,
    union: Sequence[int],
    scores: np.ndarray,
    draws: Sequence[Sequence[np.ndarray]],
    lr: float,
    bias: float,
    delete_only: bool = False,
    sign: float = 1.0,
) -> tuple[np.ndarray, set[int]]:
    """The scores [d] after the steps, and the purified set. `sign` -1 ignores that gamma falls with S in the union.

    The loss is the sum over the tasks of the mean cross-entropy of their rows.
    """
    start, s = torch.tensor(base), torch.tensor(scores, dtype=torch.float64)
    inside = torch.zeros(len(base), dtype=torch.float64).index_fill_(0, torch.tensor(union), 1.0)
    allowed = inside if delete_only else torch.ones_like(inside)
    for rows in draws:
        s = s.detach().requires_grad_(True)
        u = torch.sigmoid(s - bias)
        theta = start + (inside * (1 - u) + (1 - inside) * u) * allowed * torch.tensor(tuned - base)
        losses = [model.loss_at(theta, chosen) for model, chosen in zip(models, rows, strict=True)]
        (slope,) = torch.autograd.grad(sum(losses), s)
        s = s.detach() - lr * torch.where(inside > 0, sign * slope, slope)
    chosen = ((s > bias) & (allowed > 0)) ^ (inside > 0)
    return s.numpy(), set(chosen.nonzero().squeeze(1).tolist())
