"""The self-checks of a run before its status becomes finished."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch import Tensor

from skillviz.core.encoded import Encoded
from skillviz.core.objective import Objective
from skillviz.core.region import Region
from skillviz.models.pair import ModelPair
from skillviz.runs.record import Check

EXAMPLES = 8


def fingerprint_of(pair: ModelPair) -> str:
    """Return the sha256 of all parameters and buffers in their current state; equal hashes mean equal bits."""
    digest = hashlib.sha256()
    for name, tensor in sorted(pair.model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def size_check(region: Region, order: np.ndarray, requested: int | None) -> Check:
    """Check that the region has the requested size (None: any size) and that its order names each entry once."""
    wanted = len(order) if requested is None else requested
    passed = region.size == wanted == len(order)
    target = "its size is an outcome" if requested is None else f"{requested:,} requested"
    return Check(name="size", passed=passed, detail=f"{region.size:,} entries; {target}.")


def ranking_check(region: Region, ranking: np.ndarray) -> Check:
    """Check that the ranking cut at the region's size is the region."""
    cut = Region.from_flat(ranking[: region.size], region.shapes)
    unique = len(np.unique(ranking)) == len(ranking)
    return Check(name="ranking", passed=cut == region and unique, detail=f"{len(ranking):,} entries in order.")


def ends_check(pair: ModelPair, encoded: Encoded) -> Check:
    """Check with torch.equal that the empty region gives the base and the full region the fine-tuned model.

    If the pair's rest is zero, the empty region gives zeros. Weights are compared as integers, so bit for bit; logits
    on a few examples, and for the full region only if nothing outside the graftable parameters moved.
    """
    few = encoded.take(np.arange(min(EXAMPLES, len(encoded))))
    objective = pair.objective(few)
    logits = {}
    for state in ("pretrained", "finetuned"):
        with pair.at(state):
            logits[state] = torch.from_numpy(objective.logits())
    with pair.at("grafted", Region.empty(pair.table.shapes)):
        results = [pair.is_at("pretrained"), _same_logits(objective, logits["pretrained"])]
    with pair.at("grafted", Region.full(pair.table.shapes)):
        results.append(pair.is_at("finetuned"))
        if not pair.outside:
            results.append(_same_logits(objective, logits["finetuned"]))
    if pair.rest == "zero":
        results.append(not bool(pair.base.any()))
    empty_gives = "the base" if pair.rest == "base" else "zero in every graftable entry (a control)"
    ends = f"the empty region gives {empty_gives}, the full one the fine-tuned model"
    outside = "" if not pair.outside else "; logits of the full one differ, as embeddings or a head moved too"
    return Check(name="ends", passed=all(results), detail=f"{ends}, bit for bit ({len(few)} examples){outside}.")


def restored_check(before: str, pair: ModelPair) -> Check:
    """Check that every weight is the same as before the search and the predictions."""
    return Check(name="restored", passed=before == fingerprint_of(pair), detail="All weights as before, bit for bit.")


def _same_logits(objective: Objective, logits: Tensor) -> bool:
    return torch.equal(torch.from_numpy(objective.logits()), logits)
