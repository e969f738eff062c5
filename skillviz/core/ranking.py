"""Exactly k entries by score, ties and all."""

from __future__ import annotations

import torch
from torch import Tensor

from skillviz.errors import BadModel, BadSize


def top_of_two(first: Tensor, then: Tensor, k: int) -> Tensor:
    """The k best indices by `first` [n], of equals those with the larger `then` [n], then the smaller index."""
    if k == 0:
        return torch.empty(0, dtype=torch.long, device=first.device)
    cut = _cut(first, k)
    above = (first > cut).nonzero().squeeze(1)
    tied = (first == cut).nonzero().squeeze(1)
    chosen = torch.cat([above, tied[top(then[tied], k - len(above))]])
    chosen = chosen[torch.sort(then[chosen], descending=True, stable=True).indices]
    return chosen[torch.sort(first[chosen], descending=True, stable=True).indices]


def top(scores: Tensor, k: int) -> Tensor:
    """The k best indices of scores [n], best first; ties go to the smaller index. int64 [k].

    Equals the first k of a stable descending sort: `topk` gives the cut, ties at the cut are taken in
    index order, and only the k chosen are sorted. Raises BadSize unless 0 <= k <= n, and BadModel where a
    score is NaN: it would come from a gradient that is no number, and any order would be made up.
    """
    if not 0 <= k <= len(scores):
        raise BadSize(f"{k:,} entries were requested; between 0 and {len(scores):,} can be chosen.")
    if k == 0:
        return torch.empty(0, dtype=torch.long, device=scores.device)
    cut = _cut(scores, k)
    above = (scores > cut).nonzero().squeeze(1)
    tied = (scores == cut).nonzero().squeeze(1)
    chosen = torch.cat([above, tied[: k - len(above)]])
    return chosen[torch.sort(scores[chosen], descending=True, stable=True).indices]


def _cut(scores: Tensor, k: int) -> Tensor:
    """The k-th largest score; raises BadModel where a score is NaN."""
    cut = torch.topk(scores, k, sorted=False).values.min()
    if cut.isnan():  # topk counts NaN as the largest, and min passes it on: one NaN anywhere is seen here
        raise BadModel(
            "some scores are not numbers, so the entries cannot be ranked: a loss or gradient of this model "
            "overflowed; check the fine-tuned weights for NaN, and use float32 or bfloat16 instead of float16."
        )
    return cut
