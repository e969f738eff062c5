"""The checkpoints of one fine-tuning as a series: scores, calibration, size needed, overlap with the last region."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from skillviz.analysis.recovered import GAIN_SHARE, ROUNDING
from skillviz.core.overlap import iou_matrix, matched_chance, overlap_matrix
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.runs.run import Run

COLUMNS = (
    "step", "run_id", "split", "finetuned", "grafted", "ece", "grafted_ece", "size", "size_needed", "recovered", "low",
    "high", "held_of_last", "iou", "chance_iou", "chance_low", "chance_high",
)  # fmt: skip


def checkpoint_series(runs: Mapping[int, Run]) -> pd.DataFrame:
    """One row a checkpoint, by training step, from one run of each; the last step is what regions are compared with.

    `finetuned` and `grafted` are the task's metric at the checkpoint and at its graft of the main `size`, `ece` their
    plug-in calibration errors. `size_needed` is the smallest of the run's sizes whose graft recovers GAIN_SHARE of what
    the checkpoint gained, `recovered` with its interval what it recovers; missing where no size does, or nothing was
    gained. `held_of_last` is the share of the last region that this one holds, `iou` their intersection over union and
    `chance_iou` that of random regions with as many entries in each tensor, with the range of 95 % of them. Raises
    BadInput for no run.
    """
    if not runs:
        raise BadInput("a series of checkpoints needs at least one run.")
    steps = sorted(runs)
    regions = {str(step): runs[step].region() for step in steps}
    last = str(steps[-1])
    held, iou = overlap_matrix(regions), iou_matrix(regions)
    rows = []
    for step in steps:
        run, name = runs[step], str(step)
        split = "test" if "test" in run.record.metrics else "validation"
        states = run.record.metrics[split].states
        value = {(s, m): states[s][m].value for s in ("finetuned", "grafted") for m in (run.record.metric, "ece")}
        rows.append(
            {
                "step": step, "run_id": run.id, "split": split, "finetuned": value["finetuned", run.record.metric],
                "grafted": value["grafted", run.record.metric], "ece": value["finetuned", "ece"],
                "grafted_ece": value["grafted", "ece"], "size": run.record.size, **size_needed(run.curve(), split),
                "held_of_last": held.loc[name, last], "iou": iou.loc[name, last],
                **_chance(regions, name, last),
            }
        )  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _chance(regions: Mapping[str, Region], name: str, last: str) -> dict[str, float]:
    """chance_iou, chance_low and chance_high; missing for the last region itself."""
    by_chance = matched_chance([] if name == last else [(regions[name], regions[last])], "iou")
    return dict(zip(COLUMNS[-3:], by_chance, strict=True))


def size_needed(curve: pd.DataFrame, split: str, share: float = GAIN_SHARE) -> dict[str, float]:
    """The smallest size of a run's curve that recovers this share of the gain, and what it recovers with its interval.

    All are NaN where no size does.
    """
    rows = curve[(curve["metric"] == "recovered") & (curve["split"] == split)].sort_values("size")
    enough = rows[rows["value"] >= share - ROUNDING]
    if enough.empty:
        return dict.fromkeys(("size_needed", "recovered", "low", "high"), np.nan)
    first = enough.iloc[0]
    return {"size_needed": first["size"], "recovered": first["value"], "low": first["low"], "high": first["high"]}
