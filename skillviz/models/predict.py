"""Class scores of a pair in one of its states, and of many grafts at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from skillviz.core.encoded import Encoded
from skillviz.core.prefix import Change, logits_of, lowest_layer
from skillviz.core.region import Region
from skillviz.models.pair import ModelPair


def predict(
    pair: ModelPair,
    encoded: Encoded,
    state: str,
    region: Region | None = None,
    autocast: torch.dtype | None = None,
    heard: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Return class scores float32 [n, label], in the order of the examples; softmax over a row gives probabilities.

    The model is restored afterwards. `autocast` is the dtype of activations only. `heard` is called with the examples
    and tokens of each micro-batch.
    """
    objective = pair.objective(encoded, autocast)
    objective.heard = heard or objective.heard
    with pair.at(state, region):
        return objective.logits()


def predict_grafts(
    pair: ModelPair, encoded: Encoded, regions: Sequence[Region], around: Region | None = None
) -> list[np.ndarray]:
    """Return the class scores of each region's graft, bit for bit as in `predict`; shared parts are computed once.

    Layers are shared as long as a graft equals the base, or the graft of the region `around`, if that is similar.
    """
    regions = [region.like(pair.table.shapes) for region in regions]
    around = None if around is None else around.like(pair.table.shapes)
    shares = around is not None or any(lowest_layer(region, pair.table) for region in regions)
    if pair.rescaled or len(regions) < 2 or not shares or not pair.is_vector:
        return [predict(pair, encoded, "grafted", region) for region in regions]
    with pair.at("pretrained" if around is None else "grafted", around):
        return list(logits_of(pair.objective(encoded), [_change(pair, region, around) for region in regions]))


def _change(pair: ModelPair, region: Region, around: Region | None) -> Change:
    """Return the change that makes a region's graft from the base, or from the graft of the region `around`."""
    inside, before = region.flat(), np.empty(0, dtype=np.int64) if around is None else around.flat()
    added, removed = (
        torch.from_numpy(np.setdiff1d(one, other, assume_unique=True)).to(pair.device)
        for one, other in ((inside, before), (before, inside))
    )

    def values() -> Tensor:
        return torch.cat([pair.grafted_values(added, region.size), pair.base[removed]])

    return Change(torch.cat([added, removed]), values)
