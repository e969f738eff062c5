"""The methods page's exhibits: a metric against parameters touched, and every method less the graft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from skillviz.plots.methods import against_touched, method_style, rivals
from skillviz.ui import text
from skillviz.ui.exhibits.exhibit import Exhibit, kept
from skillviz.ui.sentences import METRIC_WORDS, metric_title, metric_value


@kept
def by_touched(
    points: pd.DataFrame, metric: str, task: str, levels: Mapping[str, float], theme: str, name: str = "touched"
) -> Exhibit:
    """The metric of every method by the parameters that it touches."""
    shown = points[points["metric"] == metric]
    better = "lower" if metric in ("ece", "nll") else "higher"
    return Exhibit(
        name=f"methods_{name}_{metric}",
        title=f"{metric_title(metric)} on {task}",
        figure=against_touched(points, metric, references=levels, theme=theme),
        reads=f"further left touches fewer parameters, {better} is better; a line is one method at several sizes. "
        "Vertical lines are 95 % intervals over test examples and seeds. Methods that touch equally many stand side by "
        "side. Level lines need no parameters.",
        alt=_said(shown, metric, task),
        table=shown.reset_index(drop=True),
        words=("touched", "bitfit", "lora", "retrain"),
    )


@kept
def against_graft(
    differences: pd.DataFrame, metrics: Sequence[str], task: str, share: float, theme: str, name: str = "rivals"
) -> Exhibit:
    """Every method less the graft of one size, paired by example."""
    words = [
        f"{method_style(row['method']).title} {METRIC_WORDS.get(row['metric'], row['metric'])} {_points(row)}"
        for row in differences[differences["metric"].isin(metrics)].to_dict("records")
    ]
    return Exhibit(
        name=f"methods_{name}",
        title=f"Less the graft of {text.share(share)}, on {task}",
        figure=rivals(differences, metrics, theme=theme),
        reads="each method less the graft, on the same test examples; the upright line is no difference. Right of it "
        "the method is better in accuracy, and worse in ECE. An interval that crosses the line leaves open which is "
        "better.",
        alt=f"Differences from the graft on {task}: {'; '.join(words)}.",
        table=differences,
        words=("paired", "ece"),
    )


def _points(row: Mapping[str, float]) -> str:
    return text.number(row["value"]) if row["metric"] == "nll" else text.points(row["value"])


def _said(rows: pd.DataFrame, metric: str, task: str) -> str:
    words = [
        f"{method_style(row['method']).title}, {text.share(row['touched'])} touched, "
        f"{metric_value(metric, row['value'])}"
        for row in rows.to_dict("records")
    ]
    return f"{METRIC_WORDS.get(metric, metric)} on {task} by parameters touched: {'; '.join(words)}."
