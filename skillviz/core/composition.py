"""The composition of a region: its entries by parameter, layer and module kind (paper, Figs. 9 and 10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np
import pandas as pd

from skillviz.core.parameters import Parameter, ParameterTable
from skillviz.core.region import Region

COLUMNS = ("parameter", "layer", "kind", "is_bias", "rows", "cols", "selected", "total")


def composition(region: Region, table: ParameterTable) -> pd.DataFrame:
    """Return one row per parameter and kind (a fused tensor gives several), with `selected` and `total` entries.

    `selected` sums to the region's size and `total` to d.
    """
    none = np.empty(0, dtype=np.int64)
    return composition_of_parts((p, region.indices.get(p.name, none)) for p in table.parameters)


def composition_of_parts(parts: Iterable[tuple[Parameter, np.ndarray]]) -> pd.DataFrame:
    """Return the same table for a region given tensor by tensor, as chosen flat indices (`region_expression.parts`)."""
    rows = [row for parameter, indices in parts for row in _rows(parameter, indices)]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"layer": "Int64"})


def _rows(parameter: Parameter, indices: np.ndarray) -> list[tuple[object, ...]]:
    kinds = parameter.kinds
    selected = np.bincount(parameter.kind_numbers(indices), minlength=len(kinds))
    shapes = [parameter.part_shape(number) for number in range(len(kinds))]
    return [
        (
            parameter.name,
            parameter.layer,
            kind,
            parameter.is_bias,
            shape[0] if len(shape) > 1 else 1,
            prod(shape[1:] if len(shape) > 1 else shape),
            int(count),
            prod(shape),
        )
        for kind, shape, count in zip(kinds, shapes, selected, strict=True)
    ]


def shared_composition(pairs: Sequence[tuple[Region, Region]], table: ParameterTable) -> pd.DataFrame:
    """Return one row per parameter and kind: the entries that two regions share there, averaged over pairs.

    parameter, kind, and as mean numbers of entries `only_a`, `both` and `only_b`; `expected` is the mean overlap of
    random regions with as many entries in each such part, a b / total. Raises BadInput for regions of two
    architectures.
    """
    frames = []
    for a, b in pairs:
        first, second, both = (composition(region, table) for region in (a, b, a & b))
        one, other, common = (frame["selected"].to_numpy(float) for frame in (first, second, both))
        expected = one * other / first["total"].to_numpy(float).clip(1)
        counts = {"only_a": one - common, "both": common, "only_b": other - common, "expected": expected}
        frames.append(first[["parameter", "kind"]].assign(**counts))
    keys = ["parameter", "kind"]
    return pd.concat(frames).groupby(keys, sort=False).mean().reset_index()
