"""Encoded examples on the device, cut into micro-batches of similar length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from skillviz.core.encoded import Encoded

# The most padded tokens in a micro-batch. On a CPU, 16 sentences of about 30 tokens were the fastest of 16, 32 and 64
# (MiniLM-L6, two cores, forward and backward: 77, 72 and 64 examples a second).
MICRO_TOKENS = {"cpu": 512, "cuda": 32_768}
UNLABELLED = -100
"""The label that torch's cross-entropy ignores."""


def rounded_up(n: int) -> int:
    """Round n up to a multiple of 8, from 64 on of a quarter of the power of two below: four values per doubling."""
    step = max(8, 2 ** (n.bit_length() - 3))
    return -(-n // step) * step


@dataclass(frozen=True)
class Batch:
    """One padded micro-batch. `rows` are the examples' numbers; shapes are [batch, ...].

    `labels` are numbers [batch], or the targets' probabilities [batch, label].
    """

    rows: np.ndarray
    inputs: dict[str, Tensor]
    labels: Tensor
    positions: Tensor | None = None
    answers: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)


class Batches:
    """The examples as padded tensors, moved to the device once.

    In the causal readout every example is `n_labels` sequences, prompt and answer; `answers` [n, label, length] is True
    for tokens of the answer.
    """

    def __init__(self, encoded: Encoded, device: torch.device, micro_tokens: int | None = None) -> None:
        self.encoded, self.device = encoded, device
        self.lengths = encoded.lengths
        self.micro_tokens = micro_tokens or MICRO_TOKENS.get(device.type, MICRO_TOKENS["cuda"])
        labels, kind = (encoded.labels, torch.long) if encoded.targets is None else (encoded.targets, torch.float32)
        self.labels = torch.tensor(labels, dtype=kind, device=device)
        self.positions = None if encoded.positions is None else torch.tensor(encoded.positions, device=device)
        ids, answers = _sequences(encoded, int(self.lengths.max(initial=1)))
        self.ids = torch.from_numpy(ids).to(device)
        self.answers = None if answers is None else torch.from_numpy(answers).to(device)
        self.types = None
        if encoded.token_type_ids is not None:
            self.types = torch.from_numpy(_padded(encoded.token_type_ids, ids.shape[-1], 0)).to(device)
        self.length_tensor = torch.from_numpy(self._sequence_lengths()).to(device)

    def __len__(self) -> int:
        return len(self.encoded)

    def micro(self, rows: np.ndarray) -> Iterator[Batch]:
        """Yield micro-batches over these rows, shortest first, each of at most `micro_tokens` padded tokens."""
        for part in self.plan(rows):
            yield self.batch(part)

    def plan(self, rows: np.ndarray) -> list[np.ndarray]:
        """Group the rows by length; a single longer example is a batch of its own."""
        rows = np.asarray(rows, dtype=np.int64)
        rows = rows[self.by_length(rows)]
        width = 1 if self.encoded.answers is None else self.encoded.n_labels
        parts: list[np.ndarray] = []
        start = 0
        for end in range(1, len(rows) + 1):
            full = end == len(rows) or (end + 1 - start) * width * self.lengths[rows[end]] > self.micro_tokens
            if full:
                parts.append(rows[start:end])
                start = end
        return parts

    def by_length(self, rows: np.ndarray) -> np.ndarray:
        """Return the order in which `micro` visits these rows: shortest first, ties in the given order. int64 [n]."""
        return np.argsort(self.lengths[rows], kind="stable")

    def batch(self, rows: np.ndarray, longest: int = 0) -> Batch:
        """Return the padded batch of these rows, cut at its longest row, or at `longest` if that is larger."""
        longest = min(max(longest, int(self.lengths[rows].max())), self.ids.shape[-1])
        index = torch.from_numpy(rows).to(self.device, non_blocking=True)
        ids = self.ids[index, ..., :longest]
        lengths = self.length_tensor[index]
        mask = (torch.arange(longest, device=self.device) < lengths.unsqueeze(-1)).long()
        inputs = {"input_ids": ids.flatten(0, -2), "attention_mask": mask.flatten(0, -2)}
        if self.types is not None:
            inputs["token_type_ids"] = self.types[index, :longest]
        return Batch(
            rows,
            inputs,
            self.labels[index],
            None if self.positions is None else self.positions[index],
            None if self.answers is None else self.answers[index, ..., :longest],
        )

    def padded(self, rows: np.ndarray, n: int) -> Batch:
        """Return the batch of these rows in one of few shapes: `n` rows, the last one repeated, without labels.

        The repeated rows have the label UNLABELLED, or probabilities 0, which no loss counts.
        """
        batch = self.batch(np.pad(rows, (0, n - len(rows)), mode="edge"), rounded_up(int(self.lengths[rows].max())))
        batch.labels[len(rows) :] = UNLABELLED if batch.labels.dim() == 1 else 0
        return batch

    def _sequence_lengths(self) -> np.ndarray:
        if self.encoded.answers is None:
            return self.lengths
        prompts = np.array([len(row) for row in self.encoded.input_ids], dtype=np.int64)
        return prompts[:, None] + np.array([[len(a) for a in row] for row in self.encoded.answers], dtype=np.int64)


def _padded(rows: list[np.ndarray], length: int, fill: int) -> np.ndarray:
    out = np.full((len(rows), length), fill, dtype=np.int64)
    for target, row in zip(out, rows, strict=True):
        target[: len(row)] = row
    return out


def _sequences(encoded: Encoded, length: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return token ids [n, length] (causal: [n, label, length]) and the mask of the answers' tokens."""
    if encoded.answers is None:
        return _padded(encoded.input_ids, length, encoded.pad_id), None
    ids = np.full((len(encoded), encoded.n_labels, length), encoded.pad_id, dtype=np.int64)
    answers = np.zeros(ids.shape, dtype=bool)
    for i, (prompt, row) in enumerate(zip(encoded.input_ids, encoded.answers, strict=True)):
        for c, answer in enumerate(row):
            start, end = len(prompt), len(prompt) + len(answer)
            ids[i, c, :start], ids[i, c, start:end] = prompt, answer
            answers[i, c, start:end] = True
    return ids, answers
