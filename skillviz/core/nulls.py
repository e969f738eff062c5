"""Null movements, which have lost the places or the signs of the fine-tuned one, and a graft's margin over them.

The same search runs on them. Choosing entries by gradients on labels is a way to train (Zhou et al. 2019, Ramanujan et
al. 2020; Mallya et al. 2018, Zhao et al. 2020), so a searched region is compared with the region of the same search on
a null movement. Each draw is a function of (seed, tensor, index) by a counter hash: any part of it can be computed
alone, in any order, with no copy of the movement, so it needs no memory in lean mode and a resumed search sees the same
draw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillviz.core.intervals import SeedsInterval
from skillviz.core.seeds_interval import seeds_and_examples
from skillviz.errors import BadData

SHUFFLED, REVERSED, SIGNS, LEARNED_SIGNS = "shuffled", "reversed", "signs", "learned-signs"
ROUNDS, FEWEST = 6, 4
"""Rounds of the Feistel network, and the fewest bits of its halves: tests/core/test_nulls.py counts the destinations of
entries. With halves of a single bit, tensors of fewer than ten entries are not permuted evenly."""


@dataclass(frozen=True)
class Null:
    """The description of one kind of null movement: what it keeps, what it breaks, and what a difference shows.

    `is_drawn`: draws differ; otherwise there is one. `has_signs`: the share of true signs in its region is reported.
    """

    name: str
    keeps: str
    breaks: str
    tests: str
    is_drawn: bool = False
    has_signs: bool = False


NULLS = {
    row.name: row
    for row in (
        Null(
            SHUFFLED,
            keeps="each tensor's movements: their sizes and their signs",
            breaks="their places within the tensor",
            tests="whether it matters which entry moved how far",
            is_drawn=True,
        ),
        Null(
            REVERSED,
            keeps="the size and the place of every movement",
            breaks="the direction: every sign is turned",
            tests="whether it matters that entries moved toward the fine-tuned values",
        ),
        Null(
            SIGNS,
            keeps="the size and the place of every movement, and about half of the signs",
            breaks="the signs, which are drawn at random",
            tests="whether a search finds the true signs; their share in its region is reported",
            is_drawn=True,
            has_signs=True,
        ),
        Null(
            LEARNED_SIGNS,
            keeps="the size and the place of every movement",
            breaks="the signs: the search chooses each entry's sign by the gradient, as training does",
            tests="whether the fine-tuned signs add anything to training as many entries on the same data",
            has_signs=True,
        ),
    )
}


def sources(index: np.ndarray, n: int, seed: int, tensor: int) -> np.ndarray:
    """Return the sources of the movements of entries `index` in a tensor of n entries: a permutation of 0..n-1, int64.

    A balanced Feistel network of ROUNDS rounds on the smallest even number of bits that holds n, repeated until the
    result is below n (Black and Rogaway 2002): a bijection for every key.
    """
    half = max(FEWEST, ((n - 1).bit_length() + 1) // 2)
    mask = np.uint64((1 << half) - 1)
    keys = [_mixed(np.array([_key(seed, tensor, number)], dtype=np.uint64))[0] for number in range(ROUNDS)]
    at = np.asarray(index, dtype=np.uint64).copy()
    outside = np.ones(len(at), dtype=bool)
    while outside.any():
        left, right = at[outside] >> np.uint64(half), at[outside] & mask
        for key in keys:
            left, right = right, left ^ (_mixed(right ^ key) & mask)
        at[outside] = (left << np.uint64(half)) | right
        outside[outside] = at[outside] >= n
    return at.astype(np.int64)


def drawn_signs(index: np.ndarray, seed: int, tensor: int) -> np.ndarray:
    """Draw a fair sign, -1 or 1, for each of the entries `index` of a tensor, float32."""
    key = _mixed(np.array([_key(seed, tensor, ROUNDS)], dtype=np.uint64))[0]
    bit = _mixed(np.asarray(index, dtype=np.uint64) ^ key) >> np.uint64(63)
    return (1 - 2 * bit.astype(np.int64)).astype(np.float32)


def _key(seed: int, tensor: int, number: int) -> int:
    """A key of 64 bits for one seed, tensor and round."""
    parts = np.random.SeedSequence((seed, tensor, number)).generate_state(1, np.uint64)
    return int(parts[0])


def _mixed(values: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014) on each value: every bit depends on every bit."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def beyond_null(graft: ArrayLike, nulls: ArrayLike) -> SeedsInterval:
    """Return the mean score of the graft minus its nulls' mean, with a 95% interval over draws and examples.

    `graft` [n] and `nulls` [draw, n] are scores of the same examples, higher is better: 1 for a right answer and 0 for
    a wrong one, or minus the loss in nats. With one draw the interval is over examples alone, and its sd is NaN. Raises
    BadData for other shapes, fewer than two examples, or scores that are not finite.
    """
    by_draw = _by_draw(graft, nulls)
    return seeds_and_examples(by_draw.mean(axis=1), _examples_sd(by_draw.mean(axis=0)))


def _by_draw(graft: ArrayLike, nulls: ArrayLike) -> NDArray[np.float64]:
    """Return the graft's score minus each draw's on each example [draw, n]."""
    own, drawn = np.asarray(graft, dtype=np.float64), np.asarray(nulls, dtype=np.float64)
    if own.ndim != 1 or drawn.ndim != 2 or drawn.shape[1:] != own.shape or not len(drawn) or len(own) < 2:
        raise BadData(
            f"a graft's scores [n] and its nulls' [draw, n] must be of the same two or more examples; got {own.shape} "
            f"and {drawn.shape}."
        )
    return own - drawn


def _examples_sd(by_example: NDArray[np.float64]) -> float:
    return float(by_example.std(ddof=1)) / math.sqrt(len(by_example))


def beyond_of_models(grafts: Sequence[ArrayLike], nulls: Sequence[ArrayLike]) -> SeedsInterval:
    """Return the mean of `beyond_null` over fine-tuned models, with a 95% interval over models, draws and examples.

    `grafts` [model][n] and `nulls` [model][draw, n] are scores of the same examples. The spread of the models includes
    the variance from their draws, so their number of draws may differ. One model has the interval of `beyond_null`.
    """
    if len(grafts) != len(nulls) or not len(grafts):
        raise BadData(f"every fine-tuned model needs its nulls; got {len(grafts)} grafts and nulls of {len(nulls)}.")
    if len(grafts) == 1:
        return beyond_null(grafts[0], nulls[0])
    models = [_by_draw(graft, drawn).mean(axis=0) for graft, drawn in zip(grafts, nulls, strict=True)]
    if len({len(by_example) for by_example in models}) > 1:
        raise BadData("the models must be scored on the same examples.")
    return seeds_and_examples(np.mean(models, axis=1), _examples_sd(np.mean(models, axis=0)))
