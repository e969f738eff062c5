"""Texts that a model generates for comparison with a reference: their scores, and the reference's perplexity.

The scores of n examples are a matrix [n, 4]: 1 if another text was generated, 1 if the reference was (an exact match),
the log-likelihood of the reference in nats, and minus its number of tokens. The last two are never above 0, so the
largest score of a row gives the outcome of generation, like a predicted class. If nothing is generated, the first two
are 0. The label is always `REFERENCE`.
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
"""The two outcomes of generation: another text, or the reference."""
REFERENCE = 1
LOG_LIKELIHOOD, MINUS_TOKENS = 2, 3
WIDTH = 4


@dataclass(frozen=True)
class Generation:
    """The rules for generating a text and comparing it with the `references` [n].

    References are decoded from their tokens and normalized by `normalise`.

    A text ends before one of `end_ids`, after `max_new_tokens`, or, with `at_line_break`, before a line break. `decode`
    turns token ids into text.
    """

    references: tuple[str, ...]
    max_new_tokens: int
    end_ids: tuple[int, ...]
    at_line_break: bool
    decode: Callable[[Sequence[int]], str]
    normalise: Callable[[str], str]

    def take(self, rows: Sequence[int] | np.ndarray) -> Generation:
        """Return the same for the examples at these row numbers, in that order."""
        return replace(self, references=tuple(self.references[row] for row in rows))

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of generated ids, without its end marker and the space around it."""
        whole = self.decode([one for one in ids if one not in self.end_ids])
        return (whole.partition("\n")[0] if self.at_line_break else whole).strip()

    def has_ended(self, ids: Sequence[int]) -> bool:
        """True if a text of these ids is complete."""
        return ids[-1] in self.end_ids or (self.at_line_break and "\n" in self.decode(ids))

    def scored(self, generated: Sequence[Sequence[int]], log_likelihoods: np.ndarray, tokens: np.ndarray) -> Generated:
        """Return the scores of generated ids, and of the references' log-likelihoods and numbers of tokens [n]."""
        texts = tuple(map(self.text, generated))
        right = [self.normalise(text) == wanted for text, wanted in zip(texts, self.references, strict=True)]
        return generated_scores(np.array(right, dtype=bool), log_likelihoods, tokens, texts)


class Generated(np.ndarray):
    """Scores of references, float32 [n, 4], with the generated `texts` [n]; a slice has no texts."""

    texts: tuple[str, ...] = ()

    def __array_finalize__(self, other: Any) -> None:
        """Drop the texts: a view or a copy cannot select its own."""
        self.texts = ()


def generated_scores(
    exact_match: np.ndarray | None, log_likelihood: np.ndarray, tokens: np.ndarray, texts: Sequence[str] = ()
) -> Generated:
    """Return the matrix [n, 4] of scores from its three columns [n]; `exact_match` is None if nothing was generated."""
    none = np.zeros(len(tokens), dtype=bool)
    right, wrong = (none, none) if exact_match is None else (exact_match.astype(bool), ~exact_match.astype(bool))
    columns = (wrong, right, np.asarray(log_likelihood), -np.asarray(tokens))
    scores = np.stack([column.astype(np.float32) for column in columns], axis=1).view(Generated)
    scores.texts = tuple(texts)
    return scores


def is_generated(logits: np.ndarray, labels: Sequence[str]) -> bool:
    """True if these are scores of references, rather than logits with one column per label."""
    return tuple(labels) == LABELS and np.asarray(logits).shape[-1] == WIDTH


def has_matches(scores: np.ndarray) -> bool:
    """True if these scores include exact matches; also true for zero examples."""
    return not len(scores) or bool(np.asarray(scores)[:, : REFERENCE + 1].any())


def normalised(text: str, ignore_case: bool = False, ignore_punctuation: bool = False) -> str:
    """Return the text as it is compared: outer white space removed, inner white space as single spaces."""
    if ignore_case:
        text = text.casefold()
    if ignore_punctuation:
        text = "".join(one for one in text if not unicodedata.category(one).startswith("P"))
    return " ".join(text.split())


def token_probability(scores: np.ndarray) -> Floats:
    """Return the probability per token that a model gives each reference [n]: the geometric mean over its tokens."""
    z = np.asarray(scores, dtype=np.float64)
    return np.exp(z[:, LOG_LIKELIHOOD] / -z[:, MINUS_TOKENS])


class Perplexity:
    """exp of the mean negative log-likelihood of a token, over all tokens of the references: 1 is certainty."""

    def value(self, logits: Floats, labels: np.ndarray, positive: int, bins: int) -> float:
        """The perplexity of all examples."""
        return float(self.statistic(logits, labels, positive, bins)(np.ones((1, len(logits))))[0])

    def statistic(self, logits: Floats, labels: np.ndarray, positive: int, bins: int) -> Callable[[Floats], Floats]:
        """Return the perplexity as a function of weights: an example's tokens are drawn together."""
        nats, tokens = -logits[:, LOG_LIKELIHOOD], -logits[:, MINUS_TOKENS]
        return lambda weights: np.exp((weights @ nats) / (weights @ tokens))
