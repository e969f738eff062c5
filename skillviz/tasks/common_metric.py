"""The metric shared by tasks that are learned together, used to choose the best step."""

from __future__ import annotations

from collections.abc import Sequence

from skillviz.core.metrics import Metric, metric_row
from skillviz.errors import BadInput
from skillviz.tasks.task import Task


def common_metric(tasks: Sequence[Task]) -> Metric:
    """The metric that sets the scale for all the tasks, the first task's; raises BadInput if their scales differ."""
    rows = [metric_row(task.metric) for task in tasks]
    if len({(row.unit, row.better, row.in_logs) for row in rows}) > 1:
        each = ", ".join(f"{task.name}: {row.title}" for task, row in zip(tasks, rows, strict=True))
        raise BadInput(
            f"the tasks' metrics have different scales ({each}), so no mean of them can choose the best step; name "
            "tasks of one scale, or train them one after the other (recipe continual)."
        )
    return rows[0]
