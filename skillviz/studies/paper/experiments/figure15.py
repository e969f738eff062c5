"""Figure 15: the checkpoints of one fine-tuning, from an early one to the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from skillviz.analysis.checkpoint_series import checkpoint_points
from skillviz.analysis.tables import check
from skillviz.errors import BadInput
from skillviz.models.finetune.training_config import DEFAULT_STEPS
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.region_comparisons import follows_early, levels_off
from skillviz.studies.paper.setting import SettingRow, sizes_row, tasks_row, trained, tuning_row
from skillviz.studies.study_observations import of_results, score_tables

if TYPE_CHECKING:
    from skillviz.runs.run import Run
    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results

PAIRS = (("graft", "ft"), ("graft", "graft_movement"))
QUARTERINGS = 2
"""The number of times the total is divided by four: the checkpoints are at 1/16, 1/4 and all of the steps."""


def steps_of(scale: Scale) -> list[int]:
    """Return the steps of the checkpoints: each after four times the steps of the one before, the last after all."""
    total = int(scale.training.get("steps") or DEFAULT_STEPS)
    return sorted({max(round(total / 4**quartering), 1) for quartering in range(QUARTERINGS + 1)})


def entries(scale: Scale) -> list[Entry]:
    """Return the default search and top movement on each checkpoint, at three sizes, for one task or those requested.

    Raises BadInput for several fine-tuning seeds, and for an existing fine-tuned model, which has no checkpoints.
    """
    scale.refuse_seeds("one fine-tuning of each task")
    if scale.finetuned:
        raise BadInput(
            "an existing fine-tuned model is one checkpoint: give the folder that holds all of them to "
            "`python -m skillviz checkpoints`, or leave --finetuned out."
        )
    sizes = scale.main_first(scale.ladder)
    return [
        scale.search(scale.first(task, steps=steps), localizer, sizes)
        for task in scale.some("one")
        for steps in steps_of(scale)
        for localizer in ("stagewise", "movement")
    ]


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return the table of checkpoints, and scores and differences by model."""
    series: dict[str, dict[int, list[Run]]] = {}
    for run in results.runs():
        spec = results.finetuned_of(run)
        if spec is not None and spec.steps is not None:
            series.setdefault(run.record.task_name, {}).setdefault(spec.steps, []).append(run)
    points = [checkpoint_points(runs) for runs in series.values()]
    return {
        "checkpoints": check(pd.concat(points, ignore_index=True) if points else pd.DataFrame(), "checkpoints"),
        **score_tables(
            of_results(results),
            PAIRS,
            "A checkpoint is the best check on validation data within its steps, as early stopping keeps it.",
        ),
    }


def differs(scale: Scale) -> list[SettingRow]:
    """Return the differences in tasks, checkpoints, and the labels used for the region."""
    steps = ", ".join(f"{step:,}" for step in steps_of(scale))
    return [
        tuning_row(scale, trained(scale)),
        tasks_row(scale, "SST-2, QNLI, SNLI and MNLI", scale.some("one")),
        SettingRow("Checkpoints", "saved along one fine-tuning", f"after {steps} steps, the best check kept"),
        SettingRow(
            "Region", "of one early checkpoint, from the model's own labels", "of each checkpoint, from true labels"
        ),
        sizes_row(scale, scale.ladder, "several, not stated"),
    ]


FIGURE15 = Experiment(
    name="figure15",
    title="Figure 15: checkpoints along fine-tuning",
    question="Where is the skill during fine-tuning, and how large is it?",
    finding="Core skills come first: the graft keeps up with the model, then levels off earlier.",
    entries=entries,
    tables=tables,
    makes=("checkpoints", "scores", "differences", "note"),
    claims=(
        Claim("At the first checkpoint, graft and model are within 3 points.", follows_early),
        Claim("From first to last checkpoint, the model improves more than its graft.", levels_off),
    ),
    differs=differs,
)
