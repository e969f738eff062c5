"""Loss and gradient of a task by plain autograd on an untouched copy of a model, one example at a time."""

from __future__ import annotations

import copy
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
        self.parameters, self.names = [dict(self.model.named_parameters())[name] for name in names], names
        self.encoded, self.readout = encoded, readout

    def put(self, theta: np.ndarray) -> None:
        """Write a vector [d] into the parameters, in order."""
        start = 0
        for parameter in self.parameters:
            values = theta[start : start + parameter.numel()]
            parameter.data = torch.tensor(values, dtype=torch.float64).reshape(parameter.shape)
            start += parameter.numel()
        assert start == len(theta)

    def logits(self, row: int) -> torch.Tensor:
        """Class scores [label] of one example."""
        ids = torch.from_numpy(self.encoded.input_ids[row])[None]
        if self.readout == "head":
            return self.model(input_ids=ids).logits[0]
        if self.readout == "prompt":
            at_mask = self.model(input_ids=ids).logits[0, int(self.encoded.positions[row])]
            return torch.stack([at_mask[int(i)] for i in self.encoded.label_ids])
        scores = []
        for answer in self.encoded.answers[row]:
            whole = torch.cat([ids[0], torch.from_numpy(answer)])
            log_p = self.model(input_ids=whole[None]).logits[0].log_softmax(-1)
            scores.append(sum(log_p[ids.shape[1] + j - 1, int(token)] for j, token in enumerate(answer)))
        return torch.stack(scores)

    def logits_at(self, theta: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
        """Class scores [row, label] at a vector [d], differentiable by that vector."""
        sizes = [parameter.numel() for parameter in self.parameters]
        values = [part.reshape(p.shape) for part, p in zip(theta.split(sizes), self.parameters, strict=True)]
        plain, given = self.model, dict(zip(self.names, values, strict=True))
        self.model = lambda **inputs: functional_call(plain, given, kwargs=inputs)
        try:
            return torch.stack([self.logits(int(row)) for row in rows])
        finally:
            self.model = plain

    def loss_and_gradient(self, theta: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray]:
        """The mean cross-entropy over the rows and its gradient [d], float64."""
        self.put(theta)
        for parameter in self.parameters:
            parameter.requires_grad_(True)
            parameter.grad = None
        loss = sum(cross_entropy(self.logits(i), torch.tensor(int(self.encoded.labels[i]))) for i in rows) / len(rows)
        loss.backward()
        for parameter in self.parameters:
            parameter.requires_grad_(False)
        return float(loss.detach()), np.concatenate([p.grad.reshape(-1).numpy() for p in self.parameters])

    def difference_gradients(self, theta: np.ndarray, row: int) -> np.ndarray:
        """Gradients [label - 1, d] of each logit minus the logit of class 0, for one example."""
        self.put(theta)
        for parameter in self.parameters:
            parameter.requires_grad_(True)
        logits = self.logits(row)
        rows = [torch.autograd.grad(z - logits[0], self.parameters, retain_graph=True) for z in logits[1:]]
        for parameter in self.parameters:
            parameter.requires_grad_(False)
        return np.stack([np.concatenate([g.reshape(-1).numpy() for g in grads]) for grads in rows])
