"""Loss and gradient of a task by plain autograd on an untouched copy of a model, one example at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch.func import functional_call
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
            return functional_call(self.model, values, kwargs={"input_ids": ids[None]}).logits[0]

        return torch.stack([self.read(scores, int(row)) for row in rows])

    def read(self, scores: Callable[[torch.Tensor], torch.Tensor], row: int) -> torch.Tensor:
        """Class scores [label] of one example, from the model's scores of token ids."""
        ids = torch.from_numpy(self.encoded.input_ids[row])
        if self.readout == "head":
            return scores(ids)
        if self.readout == "prompt":
            return scores(ids)[int(self.encoded.positions[row])][torch.from_numpy(self.encoded.label_ids)]
        likelihoods = []
        for answer in map(torch.from_numpy, self.encoded.answers[row]):
            log_p = scores(torch.cat([ids, answer]))[len(ids) - 1 : -1].log_softmax(-1)
            likelihoods.append(log_p[range(len(answer)), answer].sum())
        return torch.stack(likelihoods)

    def loss_at(self, theta: Any, rows: np.ndarray) -> torch.Tensor:
        """The mean cross-entropy over the rows at a vector [d], differentiable by that vector."""
        return cross_entropy(self.logits_at(theta, rows), torch.from_numpy(self.encoded.labels[rows]))

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
