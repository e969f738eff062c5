"""The known-truth board: results of localizers on fine-tuned models whose skill was put in a known place
(skillviz.planted).

`python -m benchmarks planted` writes both tables, docs/research/known-truth.md explains them; no torch.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from skillviz.core.seeds_interval import seeds_and_examples
from skillviz.tasks.project import app_root

CELL = ["encoder", "place", "maker", "distractor", "seed"]
"""The factors that define a planted model."""
BY = ["encoder", "distractor", "factor", "localizer"]
MEASURED = ["precision", "chance", "above_chance", "recall", "tensor", "graft", "true_part", "false_part", "kept_out"]
EVERYWHERE = "everywhere"
"""The place of the unplanted model, in which every parameter was trained."""
ALONE, SKILL = "none", "another skill"
DISTRACTORS = (ALONE, "random 1×", "random 3×", SKILL)
"""The movement around the skill: none, random movement of once or three times the size, another task's skill."""
KEEPS = 0.8
"""A planted model counts if it keeps this share of the gain of the model in which every parameter was trained."""


SMALL = "small"
"""The encoder on which the whole grid is run."""


def files() -> tuple[Path, Path]:
    """The paths of the stored searches and models."""
    folder = app_root() / "benchmarks" / "results"
    return folder / "planted.csv", folder / "planted_models.csv"


def searches(path: Path | None = None) -> pd.DataFrame:
    """One row per planted model, localizer and size factor: the region's match with the true one, and accuracies
    (0..1).

    `factor` is the region's size divided by the true one's. Empty if nothing is stored.
    """
    return _read(path or files()[0])


def models(path: Path | None = None) -> pd.DataFrame:
    """One row per planted model: its accuracies (0..1), the share of the unplanted gain that it keeps, and `counts`.

    The place EVERYWHERE is the unplanted model. Empty if nothing is stored.
    """
    return _read(path or files()[1])


def _read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, keep_default_na=False, na_values=[""]) if path.is_file() else pd.DataFrame()


def board(rows: pd.DataFrame, made: pd.DataFrame) -> pd.DataFrame:
    """The mean over the planted models that count, by the columns BY: columns of MEASURED, each with `_low` and
    `_high`, `models` and `seeds`.

    The 95% interval is over seeds, each with its mean over models; missing for one seed. `above_chance` is the
    precision minus chance, the share of true entries among all that moved.
    """
    if rows.empty:
        return pd.DataFrame()
    counted = made.loc[made["counts"].astype(bool), CELL]
    shown = rows.merge(counted, on=CELL).assign(above_chance=lambda frame: frame["precision"] - frame["chance"])
    found = []
    for key, group in shown.groupby(BY, sort=False):
        row = {**dict(zip(BY, key, strict=True)), "models": len(group)}
        row["seeds"] = group["seed"].nunique()
        for name in MEASURED:
            row |= _mean(name, group.groupby("seed")[name].mean().dropna().to_numpy())
        found.append(row)
    return pd.DataFrame(found)


def _mean(name: str, seeds: np.ndarray) -> dict[str, float]:
    """The mean over seeds with its interval, by the column's names."""
    if len(seeds) < 2:
        return {name: float(seeds.mean()) if len(seeds) else np.nan, f"{name}_low": np.nan, f"{name}_high": np.nan}
    over = seeds_and_examples(seeds, 0.0)
    return {name: over.value, f"{name}_low": over.low, f"{name}_high": over.high}
