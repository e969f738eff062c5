"""The movement of each part of each tensor in fine-tuning, and the table of layers made from it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch

from skillviz.core.composition import composition
from skillviz.core.movement import Movement
from skillviz.core.region import BLOCK, Region

COLUMNS = ("parameter", "kind", "movement_l2", "movement_max", "movement_mean")


def movement_summary(movement: Movement) -> pd.DataFrame:
    """Return one row per parameter and kind: norm, maximum and mean of |fine-tuned - base|, computed in float64.

    It works on parts of a tensor, so that no second copy of all d differences is needed.
    """
    rows, table = [], movement.table
    for tensor, parameter in enumerate(table.parameters):
        start, end = (int(offset) for offset in table.offsets[tensor : tensor + 2])
        squares, largest, total, count = np.zeros((4, len(parameter.kinds)))
        for a in range(start, end, BLOCK):
            b = min(a + BLOCK, end)
            change = movement.of(tensor, movement.base[a:b], movement.finetuned[a:b], torch.float64)
            distance = change.abs().cpu().numpy()
            numbers = parameter.kind_numbers(np.arange(a - start, b - start))
            for number in np.unique(numbers):
                part = distance[numbers == number]
                squares[number] += (part**2).sum()
                largest[number] = max(largest[number], part.max())
                total[number] += part.sum()
                count[number] += len(part)
        for number, kind in enumerate(parameter.kinds):
            mean = total[number] / count[number]
            rows.append((parameter.name, kind, np.sqrt(squares[number]), largest[number], mean))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def layers_table(region: Region, summary: pd.DataFrame, movement: Movement) -> pd.DataFrame:
    """Return layers.parquet: the region's entries by parameter and kind, and the movement of all and of these."""
    keys = ["parameter", "kind"]
    selected = pd.DataFrame(_selected(region, movement), columns=[*keys, "movement_l2_selected"])
    whole = composition(region, movement.table).merge(summary, on=keys, how="left", validate="1:1")
    return whole.merge(selected, on=keys, how="left", validate="1:1")


def _selected(region: Region, movement: Movement) -> Iterator[tuple[object, ...]]:
    none, table, base = np.empty(0, dtype=np.int64), movement.table, movement.base
    for tensor, parameter in enumerate(table.parameters):
        chosen = region.indices.get(parameter.name, none)
        at = torch.from_numpy(chosen + table.offsets[tensor]).to(base.device)
        distance = movement.of(tensor, base[at], movement.finetuned[at], torch.float64).cpu().numpy()
        numbers = parameter.kind_numbers(chosen)
        for number, kind in enumerate(parameter.kinds):
            yield parameter.name, kind, float(np.sqrt((distance[numbers == number] ** 2).sum()))
