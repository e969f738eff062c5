"""Class scores of a pair in one of its states."""

from __future__ import annotations

import numpy as np
import torch

from skillviz.core.encoded import Encoded
from skillviz.core.region import Region
from skillviz.models.pair import ModelPair


def predict(
    pair: ModelPair,
    encoded: Encoded,
    state: str,
    region: Region | None = None,
    autocast: torch.dtype | None = None,
) -> np.ndarray:
    """Class scores float32 [n, label], in the order of the examples; softmax over a row gives probabilities.

    The model is afterwards as it was before. `autocast` is the dtype of activations only.
    """
    objective = pair.objective(encoded, autocast)
    with pair.at(state, region):
        return objective.logits()
