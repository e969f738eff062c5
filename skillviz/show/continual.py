"""The continual page's exhibits: every task after every stage, and each mode compared with one model per task."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from skillviz.core.metrics import metric_row
from skillviz.plots.continual import ALONE, STYLES, by_stage
from skillviz.plots.figure import centers
from skillviz.show.exhibit import OVER_EXAMPLES, Exhibit, drawn_once
from skillviz.show.sentences import metric_value
from skillviz.show.table_words import with_task_names
from skillviz.tasks.readable_names import readable

MODES = {"independent": ALONE, **{mode: style.title for mode, style in STYLES.items()}}


@drawn_once
def stages(table: pd.DataFrame, metric: str, start: Mapping[str, float], theme: str) -> Exhibit:
    """Every task's metric after every stage."""
    rows, named = table[table["metric"] == metric].reset_index(drop=True), with_task_names(table)
    phrases = [
        f"{row['task']} after stage {row['stage']}, {MODES.get(row['mode'], row['mode'])}: "
        f"{metric_value(metric, value)}"
        for row, value in zip(with_task_names(rows).to_dict("records"), centers(rows, 1.0), strict=True)
    ]
    return Exhibit(
        name=f"continual_{metric}",
        title=f"{metric_row(metric).heading} after each stage",
        figure=by_stage(named, metric, start={readable(task): value for task, value in start.items()}, theme=theme),
        reads="one panel per task, in the order of learning. The first mark is the task's own stage; later ones show "
        "what training on other tasks did to it. Level lines: a model trained on this task alone, and the pre-trained "
        "model. Vertical lines are 95% intervals over test examples; verdicts use paired intervals, "
        "which are narrower.",
        intervals=OVER_EXAMPLES,
        alt=f"{metric_row(metric).heading} by stage. {'; '.join(phrases)}.",
        table=rows,
        words=("continual", "graft"),
    )
