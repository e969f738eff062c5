"""How far each part of each tensor moved in fine-tuning, and the table of layers made with it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from skillviz.core.composition import composition
from skillviz.core.parameters import ParameterTable
from skillviz.core.region import BLOCK, Region

COLUMNS = ("parameter", "kind", "movement_l2", "movement_max", "movement_mean")


def movement_summary(base: Tensor, finetuned: Tensor, table: ParameterTable) -> pd.DataFrame:
    """One row a parameter and kind: norm, maximum and mean of |fine-tuned - base|, taken in float64.

    Made in parts of a tensor, so that no second copy of all d differences is needed.
    """
    rows = []
    for parameter, start, end in zip(table.parameters, table.offsets[:-1], table.offsets[1:], strict=True):
        squares, largest, total, count = np.zeros((4, len(parameter.kinds)))
        for a in range(start, end, BLOCK):
            b = min(a + BLOCK, end)
            distance = (finetuned[a:b].double() - base[a:b].double()).abs().cpu().numpy()
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


def layers_table(
    region: Region, table: ParameterTable, movement: pd.DataFrame, base: Tensor, finetuned: Tensor
) -> pd.DataFrame:
    """layers.parquet: the region's entries by parameter and kind, beside the movement of all and of them."""
    keys = ["parameter", "kind"]
    selected = pd.DataFrame(_selected(region, table, base, finetuned), columns=[*keys, "movement_l2_selected"])
    whole = composition(region, table).merge(movement, on=keys, how="left", validate="1:1")
    return whole.merge(selected, on=keys, how="left", validate="1:1")


def _selected(region: Region, table: ParameterTable, base: Tensor, finetuned: Tensor) -> Iterator[tuple[object, ...]]:
    none = np.empty(0, dtype=np.int64)
    for parameter, start in zip(table.parameters, table.offsets[:-1], strict=True):
        chosen = region.indices.get(parameter.name, none)
        at = torch.from_numpy(chosen + start).to(base.device)
        distance = (finetuned[at].double() - base[at].double()).cpu().numpy()
        numbers = parameter.kind_numbers(chosen)
        for number, kind in enumerate(parameter.kinds):
            yield parameter.name, kind, float(np.sqrt((distance[numbers == number] ** 2).sum()))
