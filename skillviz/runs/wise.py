"""The stored grid of WiSE-FT and WiSE-Graft (PAPER.md, section 5), on the test sets of the run and of other tasks."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from skillviz.core.encoded import Encoded
from skillviz.core.gain import Gain
from skillviz.core.interpolate import LOWEST, PATHS, alphas
from skillviz.core.objective import Objective
from skillviz.core.prefix import Change, logits_of
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.pair import ModelPair, between
from skillviz.runs.passes import UNKEPT, Passes, digest, identity
from skillviz.runs.points import Point, bin_rows, metric_rows
from skillviz.runs.record import TaskNote
from skillviz.runs.spec import MOST_GAIN

FINETUNED_PATH, GRAFT_PATH = PATHS

Grid = tuple[pd.DataFrame, pd.DataFrame]


def wise_tables(
    pair: ModelPair,
    data: Mapping[str, Encoded],
    regions: Mapping[int, Region],
    task: TaskNote,
    passes: Passes = UNKEPT,
    gains: Mapping[int, Gain] | None = None,
) -> Grid:
    """Return interpolation.parquet and interpolation_bins.parquet.

    They have both paths at alpha 0, 0.1, ..., 1 on every data set. WiSE-Graft is computed for each region. `data` are
    encoded examples by the name of their data set; `gains` are the gains of the grafts by size, if they differ from the
    pair's.
    """
    rows: list[dict[str, Any]] = []
    bins = []
    for name, encoded in data.items():
        points: list[Point] = [
            ({"path": path, "size": size, "alpha": alpha, "dataset": name}, logits)
            for path, size, alpha, logits in grid_logits(pair, encoded, regions, alphas(), PATHS, passes, name, gains)
        ]
        end = next(z for point, z in points if (point["path"], point["alpha"]) == (FINETUNED_PATH, 1.0))
        rows += metric_rows(points, encoded.labels, task, end)
        bins.append(bin_rows(points, encoded.labels))
    tables = pd.DataFrame(rows), pd.concat(bins, ignore_index=True)
    return tables[0].astype({"size": "Int64"}), tables[1].astype({"size": "Int64"})


def grid_logits(
    pair: ModelPair,
    encoded: Encoded,
    regions: Mapping[int, Region],
    grid: np.ndarray,
    paths: Sequence[str] = PATHS,
    passes: Passes = UNKEPT,
    dataset: str = "",
    gains: Mapping[int, Gain] | None = None,
) -> Iterator[tuple[str, int | None, float, np.ndarray]]:
    """Yield path, size, alpha and logits [n, label] of every point; WiSE-FT has no size, and alpha 0 is computed once.

    `passes` stores the points of a path together, after the last one is computed.
    """
    ways: list[tuple[str, int | None, Region]] = [(GRAFT_PATH, size, region) for size, region in regions.items()]
    ways = [(FINETUNED_PATH, None, next(iter(regions.values()))), *ways]
    start: np.ndarray | None = None
    for path, size, region in ways:
        if path not in paths:
            continue
        every = list(map(float, grid))
        inside = [alpha for alpha in every if alpha or start is None]
        gain = pair.gain if gains is None or size is None else gains[size]
        of_graft = identity(region, gain) if path == GRAFT_PATH else identity(None)
        place = dataset, digest(encoded), path, inside, *of_graft
        text = f"{path}, {dataset}"
        kept = passes.kept(len(inside), *place)
        if kept is not None:
            passes.heard(len(inside) * len(encoded), len(inside) * int(encoded.lengths.sum()), text, False)
        objective = pair.objective(encoded)
        objective.heard = partial(_told, passes, text)
        computed: list[np.ndarray] = []
        points = (z for z in kept) if kept is not None else path_logits(pair, objective, path, region, inside)
        with pair.with_gain(gain), closing(points):
            for alpha in every:
                logits = next(points) if alpha or start is None else start
                start = logits if alpha == 0.0 else start
                computed += [logits] if alpha in inside else []
                yield path, size, alpha, logits
        if kept is None and computed:
            passes.keep(np.stack(computed), *place)
        passes.heard(0, 0, text, True)


def _told(passes: Passes, text: str, examples: int, tokens: int) -> None:
    """Report examples that went through the model."""
    passes.heard(examples, tokens, text, True)


def path_logits(
    pair: ModelPair, objective: Objective, path: str, region: Region | None, grid: Sequence[float]
) -> Generator[np.ndarray, None, None]:
    """Yield the logits [n, label] of a path at each alpha; wise-ft needs no region.

    On the graft's path the layers below the region's are computed once for all. The model is compared with the base
    once, and between two alphas only the region's entries change.
    """
    if path == GRAFT_PATH and region is not None and pair.is_vector:
        inside = torch.from_numpy(region.like(pair.table.shapes).flat()).to(pair.flat.device)
        base, end = pair.base[inside], pair.grafted_values(inside, len(inside))
        with pair.at("pretrained"):
            yield from logits_of(objective, [Change(inside, partial(between, base, end, alpha)) for alpha in grid])
        return
    for alpha in grid:
        with on_path(pair, path, alpha, region):
            logits = objective.logits()
        yield logits


@contextmanager
def on_path(pair: ModelPair, path: str, alpha: float, region: Region | None) -> Iterator[ModelPair]:
    """Set the model to a point of wise-ft (every parameter moves) or wise-graft (only the region's entries move).

    alpha 0 is the base, 1 the fine-tuned model or the graft; larger values extend the path, negative ones turn the
    movement around. The model is restored after the body, also after an error.
    """
    if path not in PATHS:
        raise BadInput(f"'{path}' is not a path between two models; known: {', '.join(PATHS)}.")
    if not LOWEST <= alpha <= MOST_GAIN:
        raise BadInput(f"alpha must lie in {LOWEST:g}..{MOST_GAIN} (0 = base, 1 = end); got {alpha}.")
    with pair.at("pretrained"):
        pair.put_between(alpha, None if path == FINETUNED_PATH else region)
        yield pair
