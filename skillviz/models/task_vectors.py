"""The summed movements of other fine-tuned models of one base: the changes by several other tasks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from skillviz.errors import PairMismatch
from skillviz.models.pair import ModelPair, load_pair


def summed_movements(pair: ModelPair, base: str, others: Sequence[str]) -> tuple[Tensor, str]:
    """Return the sum of the other models' fine-tuned minus base values, float32 [d], and a sentence that names them.

    `base` is the pair's base as given by the user. Besides the pair, only one model is in memory at a time. Raises
    PairMismatch for a model of another architecture and for the pair's own fine-tuned model, and the errors of
    `load_pair`.
    """
    total, names = torch.zeros(pair.d), []
    for name in others:
        other = load_pair(base, name, device="cpu")
        if other.table.shapes != pair.table.shapes:
            raise PairMismatch(f"'{name}' has other graftable parameters than this pair; name models of the same base.")
        if other.finetuned_info.fingerprint == pair.finetuned_info.fingerprint:
            raise PairMismatch(f"'{name}' is the fine-tuned model itself; name models of other tasks.")
        total += other.movement.whole()
        names.append(f"{other.finetuned_info.id} ({other.finetuned_info.fingerprint[:12]})")
    return total.to(pair.device), f"The other tasks' vectors are of {', '.join(names)}."
