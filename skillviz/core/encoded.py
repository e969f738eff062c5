"""Examples as token ids: the input of a readout, independent of their source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skillviz.core.generation import Generation

NO_OPTION = -1e9
"""The class score of an option that an example does not have: far below any log-likelihood, so its probability is 0 at
every temperature, and finite, so nothing computed from it is undefined."""


@dataclass(frozen=True)
class Encoded:
    """Tokenized examples of one split; row i of every field is example i.

    `positions` (prompt) is the position of the mask token in each row, `label_ids` [label] the vocabulary ids of the
    label words. `answers[i][c]` (causal) are the token ids of the answer for class c after the prompt of example i,
    tokenized in context, empty if the example has fewer options than `n_labels`; `by_length` scores them by
    log-likelihood per token. A reference, with the token that ends it, is the only answer: `n_labels` is 1, and all
    `labels` say that it is the right one. `generation` defines how a text is generated as well; None if no text is
    generated. `notes` are sentences on changes that encoding made to the texts, such as the number of shortened ones.
    With `targets`, probabilities [n, label], a loss is the cross-entropy with these instead of the labels.
    """

    ids: list[str]
    input_ids: list[np.ndarray]
    labels: np.ndarray
    n_labels: int
    pad_id: int = 0
    token_type_ids: list[np.ndarray] | None = None
    positions: np.ndarray | None = None
    label_ids: np.ndarray | None = None
    answers: list[list[np.ndarray]] | None = None
    by_length: bool = False
    generation: Generation | None = None
    notes: tuple[str, ...] = ()
    targets: np.ndarray | None = None

    def __repr__(self) -> str:
        longest = int(self.lengths.max()) if len(self) else 0
        return f"Encoded({len(self):,} examples of up to {longest:,} tokens, {self.n_labels} labels)"

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def has_reference(self) -> bool:
        """True if the only answer of each example is its reference."""
        return self.n_labels == 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each example, the longest answer included, int64 [n]."""
        prompts = np.array([len(row) for row in self.input_ids], dtype=np.int64)
        if self.answers is None:
            return prompts
        return prompts + np.array([max(len(a) for a in row) for row in self.answers], dtype=np.int64)

    def take(self, rows: Sequence[int] | np.ndarray) -> Encoded:
        """Return the examples at these row numbers, in that order."""
        rows = np.asarray(rows, dtype=np.int64)
        return replace(
            self,
            ids=[self.ids[i] for i in rows],
            input_ids=[self.input_ids[i] for i in rows],
            labels=self.labels[rows],
            token_type_ids=None if self.token_type_ids is None else [self.token_type_ids[i] for i in rows],
            positions=None if self.positions is None else self.positions[rows],
            answers=None if self.answers is None else [self.answers[i] for i in rows],
            generation=None if self.generation is None else self.generation.take(rows),
            targets=None if self.targets is None else self.targets[rows],
        )


def encoding_notes(by_split: Mapping[str, Encoded]) -> tuple[str, ...]:
    """Return the notes of each split, prefixed with the split's name, as in "test: 3 of 40 texts ..."."""
    return tuple(f"{split}: {note}" for split, encoded in by_split.items() for note in encoded.notes)
