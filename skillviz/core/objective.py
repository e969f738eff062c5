"""The task loss of a model in its current state, on encoded examples: its value, its gradient, its class scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

from skillviz.core.batches import Batch, Batches
from skillviz.core.decoding import scores_of_generated, scores_of_references
from skillviz.core.encoded import Encoded
from skillviz.core.flat import FlatModel
from skillviz.core.generation import token_probability
from skillviz.core.readout import CausalReadout, Readout, task_loss
from skillviz.core.recordings import Recordings
from skillviz.core.single_gradients import TakeOf, Tap, tapped, taps_of
from skillviz.errors import BadData, BadInput

AT_ONCE = 2**22
"""Entries that are exchanged at a time."""


@dataclass(frozen=True)
class Shards:
    """`count` parts of each batch. In a process group of this size, each process computes one part.

    Floating-point sums depend on their order. Here it is fixed: each part's gradient is summed from zero on its own,
    and the parts are added first to last. So several processes and one that does their work in turn agree bit for bit.
    """

    count: int = 1

    def backward(self, rows: np.ndarray, accumulate: Callable[[np.ndarray], float], grad: Tensor) -> float:
        """Return the sum of the parts' losses, and leave the sum of their gradients in `grad`.

        `accumulate` sets `grad` to the gradient of some rows and returns their loss.
        """
        parts = np.array_split(rows, self.count)
        processes = group_size()
        if processes not in (1, self.count):
            raise BadInput(
                f"{processes} processes cannot share batches in {self.count} parts; give --data-parallel {processes}."
            )
        if processes > 1:
            loss = accumulate(parts[distributed.get_rank()])
            for block in grad.split(AT_ONCE):
                block.copy_(_summed(block))
            # a CUDA group exchanges CUDA tensors only
            return float(_summed(torch.tensor([loss], dtype=torch.float64, device=grad.device)))
        total, loss = torch.zeros_like(grad), 0.0
        for part in parts:
            loss += accumulate(part)
            total += grad
        grad.copy_(total)
        return loss


def group_size() -> int:
    """Return the number of processes in this one's group, 1 if it has joined none."""
    joined = distributed.is_available() and distributed.is_initialized()
    return int(distributed.get_world_size()) if joined else 1


def _summed(block: Tensor) -> Tensor:
    """Return the sum of every process's block, first to last, in the order in which one process would add them."""
    blocks = [torch.empty_like(block) for _ in range(group_size())]
    distributed.all_gather(blocks, block.contiguous())
    total = torch.zeros_like(block)
    for one in blocks:
        total += one
    return total


ROUNDING = 1e-4
"""The tolerance of a gradient against autograd's, relative to the largest entry: float32 sums depend on their order."""


class Singles:
    """Examples `rows` of one pass: their class scores `logits` [n, label], and the gradient of each."""

    def __init__(self, rows: np.ndarray, logits: Tensor, backward: Callable[..., None]) -> None:
        self.rows, self.logits = rows, logits.detach()
        self._logits, self._backward = logits, backward

    def backward(self, weights: Tensor, take: TakeOf, *, last: bool = True) -> None:
        """Pass the gradient of each example's class scores, summed with its `weights` [n, label], to `take`.

        There may be several passes; the `last` one frees the graph.
        """
        self._backward((self._logits * weights).sum(), take, last=last)


class Objective:
    """Cross-entropy over the labels (paper's L_T), in nats per example, of the model in `flat`.

    For a reference it is its negative log-likelihood (core/readout.py).

    `autocast` (bfloat16, float16 or None) is the dtype of activations only; gradients, scores and losses stay float32.
    `shards` are the parts of a batch whose gradients are summed separately. With `recordings` passes are CUDA graphs,
    except in `singly`.
    """

    def __init__(
        self,
        flat: FlatModel,
        readout: Readout,
        encoded: Encoded,
        micro_tokens: int | None = None,
        autocast: torch.dtype | None = None,
    ) -> None:
        if not len(encoded):
            raise BadData("there are no examples to compute a loss on; give at least one.")
        self.flat, self.readout, self.autocast = flat, readout, autocast
        self.batches = Batches(encoded, flat.device, micro_tokens)
        self.labels = np.asarray(encoded.labels)
        self.n, self.n_labels = len(encoded), encoded.n_labels
        self.shards = Shards()
        self.recordings: Recordings | None = None
        self.heard: Callable[[int, int], None] = lambda examples, tokens: None
        """Called with the examples and tokens of each scored micro-batch."""

    def backward(self, rows: np.ndarray | None = None) -> float:
        """Return the mean loss over these rows, and leave its gradient in `flat.grad`."""
        rows = np.arange(self.n) if rows is None else rows
        if self.shards.count == 1:
            return self._accumulate(rows, len(rows))
        return self.shards.backward(rows, lambda part: self._accumulate(part, len(rows)), self.flat.grad)

    def _accumulate(self, rows: np.ndarray, n: int) -> float:
        """Return the loss of these rows as a part of the mean over `n`, and leave its gradient in `flat.grad`."""
        self.flat.zero_grad()
        # float16 would round an example's share of the mean to zero, so the sum is differentiated instead.
        narrow = torch.float16 in (self.autocast, self.flat.dtype)
        total, share = torch.zeros((), device=self.flat.device), 1 if narrow else n
        for loss in self._each(partial(self._differentiated, share), self.batches.plan(rows), "gradient", share):
            total += loss / n
        if narrow:
            self.flat.grad.div_(n)
        return float(total)

    def _differentiated(self, share: int, batch: Batch) -> Tensor:
        """Return the loss of a micro-batch, and add the gradient of this share of it to the parameters'."""
        loss = task_loss(self._logits(batch), batch.labels)
        (loss / share).backward()
        return loss.detach()

    def _each(self, work: Callable[[Batch], Tensor], plan: Sequence[np.ndarray], *name: Any) -> Iterator[Tensor]:
        """Yield the results of `work` for each micro-batch, with recordings also for padding rows at its end."""
        if self.recordings is None:
            return (work(self.batches.batch(part)) for part in plan)
        return self.recordings.each(work, plan, *name)

    def singly(self, rows: np.ndarray) -> Iterator[Singles]:
        """Yield these rows in micro-batches, shortest first, with a gradient for each example.

        One pass gives all gradients of a micro-batch if the model's layers allow it (core/single_gradients.py), which
        is tested on two examples against autograd; otherwise each micro-batch is one example.
        """
        _ = self.flat.grad  # parameters require gradients from here on
        for part in self.batches.plan(rows):
            together = self._together(part, self.taps) if self.taps else None
            if together is None:
                yield from (self._alone(part[i : i + 1]) for i in range(len(part)))
            else:
                yield together

    @cached_property
    def taps(self) -> list[Tap] | None:
        """The layers whose passes give gradients of single examples; None if some cannot, or differ from autograd's."""
        taps = taps_of(self.flat) if self.autocast is None else None
        rows = np.arange(min(2, self.n))
        together = None if taps is None else self._together(rows, taps)
        if together is None:
            return None
        weights = torch.linspace(-1, 1, self.n_labels, device=self.flat.device).expand(len(rows), -1)
        first = self.flat.views(self.flat.grad)
        largest, apart = [0.0], [0.0]

        def keep(example: int, number: int, gradient: Tensor) -> None:
            if example == 0:
                first[number].view(-1).copy_(gradient)

        def compare(_: int, number: int, gradient: Tensor) -> None:
            largest.append(float(gradient.abs().max()))
            apart.append(float((gradient - first[number].view(-1)).abs().max()))

        together.backward(weights, keep)
        self._alone(rows[:1]).backward(weights[:1], compare)
        return taps if max(apart) <= ROUNDING * max(largest) else None

    def _together(self, rows: np.ndarray, taps: Sequence[Tap]) -> Singles | None:
        """Return these rows from one pass; None if it does not give the gradient of each."""
        batch = self.batches.batch(rows)
        with tapped(self.flat, taps, len(rows), batch.inputs["input_ids"]) as found:
            logits = self._logits(batch)
        return Singles(rows, logits, found.backward) if found.whole else None

    def _alone(self, row: np.ndarray) -> Singles:
        def backward(total: Tensor, take: TakeOf, *, last: bool) -> None:
            with self.flat.handing_to(partial(take, 0)):
                total.backward(retain_graph=not last)

        return Singles(row, self._logits(self.batches.batch(row)), backward)

    @property
    def generates(self) -> bool:
        """True if texts are generated in addition to scoring the references."""
        return self.batches.encoded.generation is not None

    def logits(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Class scores in the order of the rows, float32 [n, label]; for references [n, 4] (core/generation.py)."""
        rows = np.arange(self.n) if rows is None else np.asarray(rows)
        if self.generates:
            assert isinstance(self.readout, CausalReadout)
            with self._context():
                scores = scores_of_generated(self.flat.model, self.batches, self.readout, rows)
            self.heard(len(rows), int(self.batches.lengths[rows].sum()))
            return scores
        return self.finished(self.answers(rows), rows)

    def finished(self, answers: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the result of `logits` from the readout's scores of these rows, if nothing is generated."""
        encoded = self.batches.encoded
        return scores_of_references(answers, encoded.take(rows)) if encoded.has_reference else answers

    @torch.no_grad()
    def answers(self, rows: np.ndarray) -> np.ndarray:
        """Return the readout's scores in the order of the rows, float32 [n, label]."""
        out = np.empty((len(rows), self.n_labels), dtype=np.float32)
        plan = self.batches.plan(rows)
        each = self._each(self._logits, plan, "scores")
        parts = []
        for scores, part in zip(each, plan, strict=True):
            parts.append(scores[: len(part)])
            self.heard(len(part), int(self.batches.lengths[part].sum()))
        out[self.batches.by_length(rows)] = torch.cat(parts).cpu().numpy()
        return out

    def loss(self, rows: np.ndarray | None = None) -> float:
        """Return the mean loss over these rows, without a gradient."""
        rows = np.arange(self.n) if rows is None else np.asarray(rows)
        total = task_loss(torch.from_numpy(self.answers(rows)), self.batches.labels.cpu()[torch.from_numpy(rows)])
        return float(total / len(rows))

    def accuracy(self, rows: np.ndarray | None = None) -> float:
        """Return the share of these rows whose largest score is the label's.

        For references without generated texts, return the mean probability per token.
        """
        rows = np.arange(self.n) if rows is None else np.asarray(rows)
        scores = self.logits(rows)
        if self.batches.encoded.has_reference and not self.generates:
            return float(token_probability(scores).mean())
        return float((scores.argmax(1) == self.labels[rows]).mean())

    def _logits(self, batch: Batch) -> Tensor:
        with self._context():
            logits = self.readout.logits(self.flat.model, batch)
        return logits.to(self.flat.device, torch.promote_types(logits.dtype, torch.float32))

    def _context(self) -> AbstractContextManager[object]:
        if self.autocast is None:
            return nullcontext()
        return torch.autocast(self.flat.device.type, dtype=self.autocast)
