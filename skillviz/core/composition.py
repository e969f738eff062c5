"""Where a region lies: its entries by parameter, layer and module kind (paper, Figs. 9 and 10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from skillviz.core.parameters import Parameter, ParameterTable
from skillviz.core.region import Region

COLUMNS = ("parameter", "layer", "kind", "is_bias", "rows", "cols", "selected", "total")


def composition(region: Region, table: ParameterTable) -> pd.DataFrame:
    """One row a parameter and kind (a fused tensor gives three), with `selected` and `total` entries.

    `selected` sums to the region's size and `total` to d.
    """
    none = np.empty(0, dtype=np.int64)
    return composition_of_parts((p, region.indices.get(p.name, none)) for p in table.parameters)


def composition_of_parts(parts: Iterable[tuple[Parameter, np.ndarray]]) -> pd.DataFrame:
    """The same of a region that is told tensor by tensor, as chosen flat indices (`region_expression.parts`)."""
    rows = [row for parameter, indices in parts for row in _rows(parameter, indices)]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"layer": "Int64"})


def _rows(parameter: Parameter, indices: np.ndarray) -> list[tuple[object, ...]]:
    kinds = parameter.kinds
    selected = np.bincount(parameter.kind_numbers(indices), minlength=len(kinds))
    rows, cols = _part_shape(parameter)
    return [
        (
            parameter.name,
            parameter.layer,
            kind,
            parameter.is_bias,
            rows,
            cols,
            int(count),
            parameter.size // len(kinds),
        )
        for kind, count in zip(kinds, selected, strict=True)
    ]


def _part_shape(parameter: Parameter) -> tuple[int, int]:
    """Rows and columns of one part: a third along the fused axis."""
    if parameter.fused is None:
        return parameter.rows, parameter.cols
    if len(parameter.shape) == 1:
        return 1, parameter.size // 3
    shape = [k // 3 if i == parameter.fused.axis else k for i, k in enumerate(parameter.shape)]
    return shape[0], shape[1]


def shared_composition(pairs: Sequence[tuple[Region, Region]], table: ParameterTable) -> pd.DataFrame:
    """One row a parameter and kind: what two regions share there, on average over pairs.

    parameter, kind, and as mean numbers of entries `only_a`, `both` and `only_b`; `expected` is the mean that random
    regions with as many entries in each such part have in common, a b / total. Raises BadInput for regions of two
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
