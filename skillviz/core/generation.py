"""Texts that a model generates beside the reference that it should: what is scored of them, and their perplexity.

The scores of n examples are a matrix [n, 4]: 1 where another text was generated, 1 where the reference was (an exact
match), the log-likelihood of the reference in nats, and minus its number of tokens. The last two are never above 0, so
that the largest score of a row says what was generated, as elsewhere the class. Where nothing is generated, the first
two are 0. The label is always `REFERENCE`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LABELS = ("other", "reference")
"""What is generated: another text, or the reference."""
REFERENCE = 1
LOG_LIKELIHOOD, MINUS_TOKENS = 2, 3
WIDTH = 4


@dataclass(frozen=True)
class Generation:
    """How a text is generated and compared: the `references` [n] as tokens write and `normalise` makes them, and when
    it ends.

    It ends before one of `end_ids`, after `max_new_tokens`, or, where `at_line_break`, before a line break. `decode`
    makes a text of token ids.
    """

    references: tuple[str, ...]
    max_new_tokens: int
    end_ids: tuple[int, ...]
    at_line_break: bool
    decode: Callable[[Sequence[int]], str]
    normalise: Callable[[str], str]

    def take(self, rows: Sequence[int] | np.ndarray) -> Generation:
        """The same of the examples at these row numbers, in that order."""
        return replace(self, references=tuple(self.references[row] for row in rows))

    def text(self, ids: Sequence[int]) -> str:
        """The text of generated ids, without what ends it and the space around it."""
        whole = self.decode([one for one in ids if one not in self.end_ids])
        return (whole.partition("\n")[0] if self.at_line_break else whole).strip()

    def has_ended(self, ids: Sequence[int]) -> bool:
        """Whether a text of these ids goes on no more."""
        return ids[-1] in self.end_ids or (self.at_line_break and "\n" in self.decode(ids))

    def scored(self, generated: Sequence[Sequence[int]], log_likelihoods: np.ndarray, tokens: np.ndarray) -> Generated:
        """The scores of generated ids, and of the references' log-likelihoods and numbers of tokens [n]."""
        texts = tuple(map(self.text, generated))
        right = [self.normalise(text) == wanted for text, wanted in zip(texts, self.references, strict=True)]
        return generated_scores(np.array(right, dtype=bool), log_likelihoods, tokens, texts)


class Generated(np.ndarray):
    """Scores of references, float32 [n, 4], with the `texts` [n] that were generated; a part of them has none."""

    texts: tuple[str, ...] = ()

    def __array_finalize__(self, other: Any) -> None:
        """A view or a copy does not know which texts are its own."""
        self.texts = ()


def generated_scores(
    exact_match: np.ndarray | None, log_likelihood: np.ndarray, tokens: np.ndarray, texts: Sequence[str] = ()
) -> Generated:
    """The matrix [n, 4] of scores from its three columns [n]; without an exact match where nothing was generated."""
    none = np.zeros(len(tokens), dtype=bool)
    right, wrong = (none, none) if exact_match is None else (exact_match.astype(bool), ~exact_match.astype(bool))
    columns = (wrong, right, np.asarray(log_likelihood), -np.asarray(tokens))
    scores = np.stack([column.astype(np.float32) for column in columns], axis=1).view(Generated)
    scores.texts = tuple(texts)
    return scores


def is_generated(logits: np.ndarray, labels: Sequence[str]) -> bool:
    """Whether these are scores of references, and no logits of as many classes as there are labels."""
    return tuple(labels) == LABELS and np.asarray(logits).shape[-1] == WIDTH


def has_matches(scores: np.ndarray) -> bool:
    """Whether these scores say what was generated; of no examples they do."""
    return not len(scores) or bool(np.asarray(scores)[:, : REFERENCE + 1].any())


def normalised(text: str, ignore_case: bool = False, ignore_punctuation: bool = False) -> str:
    """A text as it is compared: white space at its ends is left out, and inside it is one space."""
    if ignore_case:
        text = text.casefold()
    if ignore_punctuation:
        text = "".join(one for one in text if not unicodedata.category(one).startswith("P"))
    return " ".join(text.split())


def token_probability(scores: np.ndarray) -> Floats:
    """The probability per token that a model gives each reference [n]: the geometric mean over its tokens."""
    z = np.asarray(scores, dtype=np.float64)
    return np.exp(z[:, LOG_LIKELIHOOD] / -z[:, MINUS_TOKENS])


class Perplexity:
    """exp of the mean negative log-likelihood of a token, over all tokens of the references: 1 is certainty."""

    def value(self, logits: Floats, labels: np.ndarray, positive: int, bins: int) -> float:
        """The perplexity of all examples."""
        return float(self.statistic(logits, labels, positive, bins)(np.ones((1, len(logits))))[0])

    def statistic(self, logits: Floats, labels: np.ndarray, positive: int, bins: int) -> Callable[[Floats], Floats]:
        """The perplexity as a function of weights: an example's tokens are drawn together."""
        nats, tokens = -logits[:, LOG_LIKELIHOOD], -logits[:, MINUS_TOKENS]
        return lambda weights: np.exp((weights @ nats) / (weights @ tokens))
