"""The curves of runs by region size, averaged over seeds: one row per line and size."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pandas as pd

from skillviz.analysis.seeds import mean_over_seeds, scored_in
from skillviz.analysis.tables import OVER
from skillviz.core.localizers.table import LOCALIZERS, OUTCOME_SIZED

COLUMNS = ("localizer", "settings", "size", "share", "value", "debiased", "low", "high", "seeds", "over")


def by_size(curve: pd.DataFrame, metric: str, per_run: Collection[str] = OUTCOME_SIZED) -> pd.DataFrame:
    """One row per localizer, settings and size, with COLUMNS.

    `curve` has the columns of curve.parquet (localizer, seed, size, share, metric, value, low, high, debiased; dataset
    and split if they hold one value each); shares and metrics are 0..1. Its `settings`, if present, distinguish
    searches of one localizer; they are words, empty for the defaults. Rows of size 0 are left out (they are the
    pre-trained model). `over` is the kind of the 95% interval: `examples and seeds`, with the examples' part from the
    rows' own intervals, or `examples` for a single seed. Localizers in `per_run` keep one row for each run: by default
    those whose runs each end at another size. Raises ValueError for a frame that mixes data sets or splits.
    """
    rows = curve[(curve["metric"] == metric) & (curve["size"] > 0)]
    for column in ("dataset", "split"):
        if column in rows and rows[column].nunique() > 1:
            raise ValueError(f"curve: choose one {column}; given: {', '.join(sorted(set(rows[column])))}")
    rows = rows.assign(settings=rows["settings"].fillna("") if "settings" in rows else "")
    pooled = []
    for name, settings in _series(rows):
        of_series = rows[(rows["localizer"] == name) & (rows["settings"] == settings)]
        keys = ["size", "seed"] if name in per_run else ["size"]
        for _, group in of_series.groupby(keys, sort=True):
            pooled.append({"localizer": name, "settings": settings, **_pooled(group)})
    return pd.DataFrame(pooled, columns=list(COLUMNS))


def _series(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Localizers with their settings: the defaults in the order of the table, then the others."""
    pairs = set(zip(rows["localizer"], rows["settings"], strict=True))
    places = {name: place for place, name in enumerate(LOCALIZERS)}
    usual = sorted((name for name, settings in pairs if not settings), key=lambda n: (places.get(n, len(places)), n))
    return [*((name, "") for name in usual), *sorted(pair for pair in pairs if pair[1])]


def _pooled(group: pd.DataFrame) -> dict[str, Any]:
    """One localizer at one size: the mean over its seeds, with its interval."""
    metric = str(group["metric"].iloc[0])
    side = {seed: [scored_in(row, metric) for row in of.to_dict("records")] for seed, of in group.groupby("seed")}
    over = mean_over_seeds(side, metric)
    row: dict[str, Any] = {"size": int(group["size"].iloc[0]), "share": float(group["share"].iloc[0])}
    # Seeds that agree exactly (a method that draws nothing) are one search repeated.
    is_one = group.groupby("seed")["value"].mean().nunique() < 2
    numbers = {name: getattr(over, name) for name in ("value", "debiased", "low", "high")}
    return row | {**numbers, "seeds": len(side), "over": "examples" if is_one else OVER[0]}
