"""Selection of exactly k entries by score, also with ties."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from skillviz.errors import BadModel, BadSize

LEAST = torch.finfo(torch.float32).min
"""Below every score, but above the score of excluded entries (-inf)."""


def moved_first(scores: Tensor, movement: Tensor) -> Tensor:
    """Return the scores [n], with LEAST where the movement [n] is zero.

    Copying an entry that did not move changes nothing, so it is chosen after all others.
    """
    return torch.where((movement == 0) & (scores > LEAST), LEAST, scores)


def top_of_two(first: Tensor, then: Tensor, k: int) -> Tensor:
    """Return the k best indices by `first` [n], ties by the larger `then` [n], then by the smaller index."""
    if k == 0:
        return torch.empty(0, dtype=torch.long, device=first.device)
    if (at := _contenders(first, k)) is not None:
        return at[top_of_two(first[at], then[at], k)]
    cut = _cut(first, k)
    above = (first > cut).nonzero().squeeze(1)
    tied = (first == cut).nonzero().squeeze(1)
    chosen = torch.cat([above, tied[top(then[tied], k - len(above))]])
    chosen = chosen[torch.sort(then[chosen], descending=True, stable=True).indices]
    return chosen[torch.sort(first[chosen], descending=True, stable=True).indices]


def top(scores: Tensor, k: int) -> Tensor:
    """Return the k best indices of scores [n], best first; ties go to the smaller index. int64 [k].

    Equals the first k of a stable descending sort: `topk` gives the cut, ties at the cut are taken in index order, and
    only the k chosen are sorted. If there are many scores, only the contenders are ranked. Raises BadSize unless
    0 <= k <= n, and BadModel if a score is NaN: it comes from a NaN gradient, and any order would be made up.
    """
    if not 0 <= k <= len(scores):
        raise BadSize(f"{k:,} entries were requested; between 0 and {len(scores):,} can be chosen.")
    if k == 0:
        return torch.empty(0, dtype=torch.long, device=scores.device)
    if (at := _contenders(scores, k)) is not None:
        return at[top(scores[at], k)]
    cut = _cut(scores, k)
    above = (scores > cut).nonzero().squeeze(1)
    tied = (scores == cut).nonzero().squeeze(1)
    chosen = torch.cat([above, tied[: k - len(above)]])
    return chosen[torch.sort(scores[chosen], descending=True, stable=True).indices]


MANY, FEW, STRIDE = 2**17, 16, 64
"""From MANY scores on, if at most a 16th of them is wanted, a sample of every 64th narrows down the contenders."""
Parts = Callable[[], Iterable[Tensor]]
"""Called once per pass: yields a vector of scores [n], float32, in consecutive parts."""
NOT_NUMBERS = (
    "some scores are not numbers, so the entries cannot be ranked: a loss or gradient of this model "
    "overflowed; check the fine-tuned weights for NaN, and use float32 or bfloat16 instead of float16."
)
HALF, SIGN = 16, 0x7FFFFFFF


def top_of_parts(parts: Parts, n: int, k: int) -> tuple[Tensor, Tensor]:
    """Return the choice of `top` among scores [n] that are never in memory together: ascending indices, and scores.

    The k-th largest is found by its bits: the upper half in a first pass, the lower half in a second, each by counting.
    A third pass collects the scores above it, and as many of the first ties as are still needed.
    """
    if not 0 <= k <= n:
        raise BadSize(f"{k:,} entries were requested; between 0 and {n:,} can be chosen.")
    cut, ties = _cut_of_parts(parts, k) if k else (float("inf"), 0)
    indices, scores, start = list[Tensor](), list[Tensor](), 0
    for part in parts() if k else ():
        at = (part >= cut).nonzero().squeeze(1)
        is_tie = part[at] == cut
        if (left := ties - int(is_tie.sum())) < 0:
            at = at[~is_tie | (is_tie.cumsum(0) <= ties)]
        ties = max(left, 0)
        indices.append(at + start)
        scores.append(part[at])
        start += len(part)
    if not indices:
        return torch.empty(0, dtype=torch.long), torch.empty(0)
    return torch.cat(indices), torch.cat(scores)


class Best:
    """The `k` best of all added scores, with the selection of `top`: `index` ascending, and its `scores`."""

    def __init__(self, k: int, device: torch.device | None = None) -> None:
        self.k = k
        self.index, self.scores = torch.empty(0, dtype=torch.long, device=device), torch.empty(0, device=device)

    def add(self, scores: Tensor, start: int) -> None:
        """Add the entries start, start + 1, ..., none of which was added before."""
        if bool(scores.isnan().any()):
            raise BadModel(NOT_NUMBERS)
        if len(self.index) == self.k:  # equal scores too: their entry may come first
            at = (scores >= (self.scores.min() if self.k else float("inf"))).nonzero().squeeze(1)
        else:
            at = torch.arange(len(scores), device=scores.device)
        if self.k == 0 or len(at) == 0:
            return
        index, both = torch.cat([self.index, at + start]), torch.cat([self.scores, scores[at]])
        order = index.argsort()
        index, both = index[order], both[order]
        chosen = top(both, min(self.k, len(both))).sort().values
        self.index, self.scores = index[chosen], both[chosen]

    def order(self) -> Tensor:
        """Return the entries, best first; ties by the smaller index."""
        return self.index[torch.sort(self.scores, descending=True, stable=True).indices]


def _cut_of_parts(parts: Parts, k: int) -> tuple[float, int]:
    """Return the k-th largest score, and how many of the k largest equal it."""
    upper, left = _place(parts, k, None)
    lower, left = _place(parts, left, upper)
    key = torch.tensor((upper - 2 ** (HALF - 1)) * 2**HALF + lower, dtype=torch.int64).to(torch.int32)
    bits = torch.where(key < 0, key ^ SIGN, key)
    return float(bits.view(torch.float32)), left


def _place(parts: Parts, k: int, upper: int | None) -> tuple[int, int]:
    """Return one half of the key of the k-th largest score, and its rank among the scores that share this half.

    It is the upper half or, among the scores with that `upper` half, the lower one.
    """
    counts = torch.zeros(2**HALF, dtype=torch.int64)
    for part in parts():
        if upper is None and bool(part.isnan().any()):
            raise BadModel(NOT_NUMBERS)
        keys = _keys(part)
        halves = (keys >> HALF) + 2 ** (HALF - 1)
        if upper is not None:
            halves = (keys & (2**HALF - 1))[halves == upper]
        counts += torch.bincount(halves, minlength=2**HALF).cpu()
    above = counts.flip(0).cumsum(0)
    place = int((above >= k).nonzero()[0])
    half = 2**HALF - 1 - place
    return half, k - int(above[place] - counts[half])


def _keys(scores: Tensor) -> Tensor:
    """Return integers, int32, in the order of the scores; both zeros have the same."""
    bits = (scores + 0.0).view(torch.int32)
    return torch.where(bits < 0, bits ^ SIGN, bits)


def _contenders(scores: Tensor, k: int) -> Tensor | None:
    """Return entries, ascending, that include the k best, all ties of the last of them, and every NaN.

    None if these would not be a small part of all. A sample of the scores gives a bound that about 2 k of all reach. If
    at least k reach it, the k-th largest is no smaller, so entries below the bound are not chosen.
    """
    n = len(scores)
    if n < MANY or k > n // FEW:
        return None
    sample = scores[::STRIDE]
    bound = torch.topk(sample, 2 * k // STRIDE + 32, sorted=False).values.min()
    if int(torch.count_nonzero((sample < bound).logical_not_())) > len(sample) // 4:  # ties or NaN
        return None
    at = (scores < bound).logical_not_().nonzero().squeeze(1)
    return at if len(at) >= k else None


def _cut(scores: Tensor, k: int) -> Tensor:
    """Return the k-th largest score; raises BadModel if a score is NaN."""
    cut = torch.topk(scores, k, sorted=False).values.min()
    if cut.isnan():  # topk ranks NaN largest and min propagates it, so this finds any NaN
        raise BadModel(NOT_NUMBERS)
    return cut
