"""The table `composition`: the layers and module kinds of the entries in runs' regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.tables import check
from skillviz.runs.run import Run


def composition(runs: Sequence[Run], variants: Sequence[str] = ()) -> pd.DataFrame:
    """The location of each run's main region: one row per layer, kind and bias; `selected` sums to the region's size.

    `variants` give for each run the label that distinguishes it from others of its task and localizer.
    """
    rows = []
    for run, variant in zip(runs, variants or [""] * len(runs), strict=True):
        frame = run.layers()
        size, d = int(frame["selected"].sum()), int(frame["total"].sum())
        named: dict[Any, Any] = {
            "task": run.record.task_name, "localizer": run.spec.localizer, "variant": variant, "seed": run.spec.seed,
        }  # fmt: skip
        parts = frame.groupby(["layer", "kind", "is_bias"], dropna=False, sort=False)[["selected", "total"]].sum()
        for part in parts.reset_index().to_dict("records"):
            selected, total = int(part["selected"]), int(part["total"])
            density = (selected / total) / (size / d) if size and total else np.nan
            share = selected / size if size else 0.0
            rows.append({**named, **part, "share": share, "density_ratio": density})
    return check(pd.DataFrame(rows), "composition")
