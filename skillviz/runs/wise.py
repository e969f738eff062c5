"""The stored grid of WiSE-FT and WiSE-Graft (PAPER.md, section 5) on the test set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skillviz.core.encoded import Encoded
from skillviz.core.interpolate import PATHS, alphas
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.pair import ModelPair
from skillviz.runs.evaluate import metrics
from skillviz.runs.record import TaskNote

FINETUNED_PATH = PATHS[0]


def wise_rows(pair: ModelPair, encoded: Encoded, region: Region, task: TaskNote) -> list[dict[str, Any]]:
    """The rows of interpolation.parquet: both paths at alpha 0, 0.1, ..., 1, every metric."""
    rows = []
    for path, alpha, logits in wise_logits(pair, encoded, region, alphas()):
        common = {"path": path, "alpha": alpha, "dataset": task.name}
        found = metrics(logits, encoded.labels, task)
        rows += [{**common, "metric": name, **value.model_dump()} for name, value in found.items()]
    return rows


def wise_logits(
    pair: ModelPair, encoded: Encoded, region: Region, grid: np.ndarray
) -> Iterator[tuple[str, float, np.ndarray]]:
    """Path, alpha and logits [n, label] of every point; both ends are copied, not computed."""
    objective = pair.objective(encoded)
    for path in PATHS:
        for alpha in map(float, grid):
            with on_path(pair, path, alpha, region):
                yield path, alpha, objective.logits()


@contextmanager
def on_path(pair: ModelPair, path: str, alpha: float, region: Region) -> Iterator[ModelPair]:
    """The pair's model at a point of wise-ft (every parameter moves) or wise-graft (the region's entries alone).

    alpha 0 is the base, 1 the fine-tuned model or the graft; whatever happens inside, the model is then as before.
    """
    if path not in PATHS:
        raise BadInput(f"'{path}' is not a path between two models; known: {', '.join(PATHS)}.")
    if not 0.0 <= alpha <= 1.0:
        raise BadInput(f"alpha must lie in 0..1 (0 = base, 1 = end); got {alpha}.")
    with pair.at("pretrained"):
        if path == FINETUNED_PATH:
            _whole(pair, alpha)
        else:
            inside = torch.from_numpy(region.flat()).to(pair.flat.device)
            pair.flat.theta[inside] = _between(pair.base[inside], pair.finetuned[inside], alpha)
        yield pair


def _whole(pair: ModelPair, alpha: float) -> None:
    """WiSE-FT moves every parameter, those outside the graftable ones too."""
    pair.flat.theta.copy_(_between(pair.base, pair.finetuned, alpha))
    for name, (base, finetuned) in pair.outside.items():
        pair.model.get_parameter(name).data.copy_(_between(base, finetuned, alpha))


def _between(base: Tensor, end: Tensor, alpha: float) -> Tensor:
    if alpha in (0.0, 1.0):
        return end if alpha else base
    return torch.lerp(base.float(), end.float(), alpha).to(base.dtype)
