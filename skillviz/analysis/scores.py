"""The table `scores`: every method's metrics, mean over seeds, with one interval over seeds and examples together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.answers import Answers
from skillviz.analysis.observations import TEST, Observation, sides
from skillviz.analysis.seeds import Resampled, SeedsEstimate, mean_of, mean_over_seeds, resampled_tests, scored_on
from skillviz.analysis.tables import check
from skillviz.core.calibration import confidence_histogram
from skillviz.core.metrics import metric_names
from skillviz.runs.metrics import positive
from skillviz.runs.record import TaskNote

SAME_COLUMNS = (
    "base",
    "recipe",
    "variant",
    "setting",
    "id_task",
    "task",
    "split",
    "method",
    "localizer",
    "search_variant",
)
SORTED = [
    "id_task", "setting", "readout", "task", "split", "metric", "method", "recipe", "variant", "localizer",
    "search_variant", "size",
]  # fmt: skip


def score_table(observations: Sequence[Observation], resampled: Resampled | None = None) -> pd.DataFrame:
    """One row per method, size, task, split and metric.

    If there are several fine-tuned models, `seeds` counts the models, and each counts by the mean over its mask seeds;
    with one model, `seeds` counts its mask seeds. `low` and `high` are over seeds and examples together
    (`seeds.mean_over_seeds`); without stored predictions, and on validation, the examples' part comes from the runs'
    own intervals.
    """
    drawn = resampled or resampled_tests(observations)
    rows = [_row(side, metric, drawn) for side in sides(observations) for metric in side[0].metrics]
    frame = pd.DataFrame(rows)
    return check(frame.sort_values(SORTED, kind="stable") if len(frame) else frame, "scores")


def _row(side: Sequence[Observation], metric: str, drawn: Resampled) -> dict[str, Any]:
    first = side[0]
    return {
        **{name: getattr(first, name) for name in SAME_COLUMNS}, "readout": first.shown_readout,
        "size": mean_of(one.size for one in side), "share": mean_of(one.share for one in side),
        "touched": mean_of(one.touched for one in side), "metric": metric,
        **_estimate(mean_over_seeds(drawn.side(side, metric), metric)), "n": first.n,
    }  # fmt: skip


def score_rows(
    logits: Sequence[np.ndarray], labels: np.ndarray, task: TaskNote, columns: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """One row of `scores` per metric (the task's own first) for several seeds' logits [n, label] on the same examples.

    `columns` are those that do not depend on the metric; variants and readout are empty if not given there.
    """
    answers = [Answers(np.arange(len(labels)), labels, np.asarray(z, np.float64)) for z in logits]
    common = {"variant": "", "search_variant": "", "readout": "", **columns, "n": len(labels)}
    rows = []
    for name in metric_names(task.metric):
        side = {seed: [one] for seed, one in enumerate(scored_on(answers, name, positive(task)))}
        rows.append({**common, "metric": name, **_estimate(mean_over_seeds(side, name))})
    return rows


def _estimate(over: SeedsEstimate) -> dict[str, float]:
    """A mean over seeds as columns."""
    return {"mean": over.value, **{name: getattr(over, name) for name in ("debiased", "low", "high", "sd", "seeds")}}


def histogram(observations: Sequence[Observation], bins: int = 20) -> pd.DataFrame:
    """Counts of test examples by top probability, for the fine-tuned model and for each graft, mean over seeds."""
    groups: dict[tuple[str, str, str], list[Observation]] = {}
    for one in observations:
        scored = one.split == TEST and one.task == one.id_task and one.answers is not None
        if scored and (one.method == "ft" or one.is_graft):
            state = "finetuned" if one.method == "ft" else "grafted"
            size = "" if one.method == "ft" else one.requested_size or f"{one.share:.2%}"
            groups.setdefault((one.task, state, size), []).append(one)
    frames = []
    for (task, state, _), same in groups.items():
        counts = [confidence_histogram(o.answers.logits, o.answers.labels, bins) for o in same if o.answers]
        mean = pd.concat(counts).groupby("bin")[["lower", "upper", "count", "correct"]].mean()
        named = mean.rename(columns={"lower": "low_edge", "upper": "high_edge"})
        frames.append(
            named.assign(
                task=task, state=state, size=mean_of(o.size for o in same), share=mean_of(o.share for o in same),
                n=round(float(named["count"].sum())),
            )
        )  # fmt: skip
    return check(pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(), "histogram")
