"""The published mask training, written from the paper's description and with its costs, as the reference for timings.

It has three copies of the model, parameters found by name, inputs padded to 128 tokens, micro-batches of 8, and a
rounded mask that is scored after every step on a new sample of the training examples and on all validation examples. It
is written to be faithful, not fast, and shares no code with the engine.
"""

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from skillviz.core.encoded import Encoded

LENGTH = 128  # tokens that every input is padded to
MICRO_BATCH = 8
BATCH = 1024
STEPS = 100


class Outcome(NamedTuple):
    """One step: its mean loss in nats, the size of the rounded mask, and that mask's score (0 to 2)."""

    step: int
    loss: float
    size: int
    score: float


class ReferenceLoop:
    """The scores S of every maskable entry, and the best rounded mask so far.

    `names` are the maskable parameters. The starting mask holds the entries whose movement is above the `s`-th largest,
    s = `base_share` * d; S starts uniform in [0, 1). `batch_size` is also the size of the sample on which masks are
    scored: both are 1,024 in the paper.
    """

    def __init__(
        self,
        pretrained: nn.Module,
        finetuned: nn.Module,
        names: Sequence[str],
        train: Encoded,
        validation: Encoded,
        *,
        batch_size: int = BATCH,
        lr: float = 1e7,
        bias: float = 10.0,
        base_share: float = 1e-5,
        length: int = LENGTH,
        seed: int = 0,
    ) -> None:
        self.pretrained, self.finetuned, self.model = (
            pretrained.eval(), finetuned.eval(), copy.deepcopy(pretrained).eval()
        )  # fmt: skip
        self.names, self.train, self.validation = list(names), train, validation
        self.batch_size, self.lr, self.bias, self.length = min(batch_size, len(train)), lr, bias, length
        self.order = np.random.default_rng(seed)
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(name in self.names)
        self.device = next(self.model.parameters()).device
        self.base = self._largest_movers(base_share)
        self.scores = self._uniform(seed)
        self.best = {name: mask.clone() for name, mask in self.base.items()}
        self.best_score, self.best_step, self.steps = 0.0, 0, 0

    def step(self) -> Outcome:
        """Take one gradient step on S, then score the rounded mask."""
        self.steps += 1
        soft = {name: self._soft(name) for name in self.names}
        self._graft(soft)
        loss = self._gradients(self.order.permutation(len(self.train))[: self.batch_size])
        for name in self.names:
            movement = parameter_of(self.finetuned, name).data - parameter_of(self.pretrained, name).data
            u = torch.sigmoid(self.scores[name] - self.bias)
            sign = 1.0 - 2.0 * self.base[name].to(u.dtype)
            gradient = parameter_of(self.model, name).grad
            self.scores[name] -= self.lr * (sign * movement * gradient * u * (1 - u)).to(u.dtype)
        rounded = self.rounded()
        self._graft({name: mask.to(soft[name].dtype) for name, mask in rounded.items()})
        score = self._accuracy(self.train, self.order.permutation(len(self.train))[: self.batch_size])
        score += self._accuracy(self.validation, np.arange(len(self.validation)))
        if score > self.best_score:
            self.best, self.best_score, self.best_step = rounded, score, self.steps
        return Outcome(self.steps, loss, sum(int(mask.sum()) for mask in rounded.values()), score)

    def rounded(self) -> dict[str, Tensor]:
        """Return the binary mask by name: the starting mask, flipped where S is above the bias."""
        return {name: self.base[name] ^ (self.scores[name] > self.bias) for name in self.names}

    def _soft(self, name: str) -> Tensor:
        u, base = torch.sigmoid(self.scores[name] - self.bias), self.base[name].to(self.scores[name].dtype)
        return base * (1 - u) + (1 - base) * u

    @torch.no_grad()
    def _graft(self, mask: dict[str, Tensor]) -> None:
        """Reset the third model to the first, then add the mask's share of the movement."""
        for name in self.names:
            parameter, before = parameter_of(self.model, name), parameter_of(self.pretrained, name)
            parameter += before - parameter
            parameter += mask[name] * (parameter_of(self.finetuned, name) - before)

    def _gradients(self, rows: np.ndarray) -> float:
        """Return the mean loss; the model's gradients are then the mean over the micro-batches."""
        self.model.zero_grad()
        losses = []
        for inputs, labels in self._batches(self.train, rows):
            loss = cross_entropy(self.model(**inputs).logits, labels)
            loss.backward()
            losses.append(loss.item())
        for name in self.names:
            parameter_of(self.model, name).grad /= len(losses)  # type: ignore[operator]
        return sum(losses) / len(losses)

    @torch.no_grad()
    def _accuracy(self, examples: Encoded, rows: np.ndarray) -> float:
        rights = (self.model(**inputs).logits.argmax(-1) == labels for inputs, labels in self._batches(examples, rows))
        return sum(int(right.sum()) for right in rights) / len(rows)

    def _batches(self, examples: Encoded, rows: np.ndarray) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        """Yield micro-batches of these examples in the given order, all padded to the same length."""

        def padded(tokens: Iterable[np.ndarray], value: int) -> Tensor:
            return torch.stack([pad(torch.from_numpy(row), (0, self.length - len(row)), value=value) for row in tokens])

        for start in range(0, len(rows), MICRO_BATCH):
            part = rows[start : start + MICRO_BATCH]
            ids = [examples.input_ids[row] for row in part]
            inputs = {
                "input_ids": padded(ids, examples.pad_id),
                "attention_mask": padded([np.ones_like(row) for row in ids], 0),
            }
            if examples.token_type_ids is not None:
                inputs["token_type_ids"] = padded([examples.token_type_ids[row] for row in part], 0)
            on_device = {name: tensor.to(self.device) for name, tensor in inputs.items()}
            yield on_device, torch.from_numpy(examples.labels[part]).to(self.device)

    def _largest_movers(self, share: float) -> dict[str, Tensor]:
        """Return the starting mask: movement strictly above the s-th largest, so that it has at most s - 1 entries."""
        moved = {name: parameter_of(self.finetuned, name) - parameter_of(self.pretrained, name) for name in self.names}
        every = torch.cat([movement.detach().abs().flatten() for movement in moved.values()])
        threshold = every.topk(max(1, round(share * len(every)))).values[-1]
        return {name: movement.detach().abs() > threshold for name, movement in moved.items()}

    def _uniform(self, seed: int) -> dict[str, Tensor]:
        """Return S of all entries from one seeded generator on the CPU, cut into the parameters' shapes."""
        shapes = {name: parameter_of(self.model, name).shape for name in self.names}
        sizes = [math.prod(shape) for shape in shapes.values()]
        parts = torch.rand(sum(sizes), generator=torch.Generator().manual_seed(seed)).split(sizes)
        return {
            name: part.view(shape).to(self.device) for (name, shape), part in zip(shapes.items(), parts, strict=True)
        }


def parameter_of(model: nn.Module, name: str) -> nn.Parameter:
    """Return the parameter of that name, found by iterating over all of them."""
    return next(parameter for own, parameter in model.named_parameters() if own == name)
