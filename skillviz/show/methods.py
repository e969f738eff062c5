"""The methods page's exhibits: a metric against parameters touched, and every method minus the graft."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.plots.figure import centers
from skillviz.plots.methods import against_touched, is_printed, method_style, rivals
from skillviz.show.exhibit import OVER_SEEDS, Exhibit, drawn_once
from skillviz.show.sentences import metric_value
from skillviz.show.table_words import RECIPE_WORDS
from skillviz.tasks.readable_names import readable

NAMED = 5  # most points in the alt text


@drawn_once
def by_touched(
    points: pd.DataFrame,
    metric: str,
    task: str,
    levels: Mapping[str, float],
    theme: str,
    name: str = "touched",
    height: int | None = None,
) -> Exhibit:
    """The metric of every method by the number of parameters that it touches."""
    (shown, left_out), on = debiased_alone(points, metric), readable(task)
    return Exhibit(
        name=f"methods_{name}_{metric}",
        title=f"{metric_row(metric).heading} on {on}",
        figure=against_touched(shown, metric, references=levels, recipes=RECIPE_WORDS, theme=theme, height=height),
        reads=touched_reads(shown, metric) + f" 95% intervals are over test examples and seeds{left_out}.",
        intervals=OVER_SEEDS,
        alt=f"{metric_row(metric).title} on {on} by parameters touched: {touched_words(shown, metric)}.",
        table=shown.reset_index(drop=True),
        words=("touched", "bitfit", "lora", "adapters", "retrain"),
    )


@drawn_once
def against_graft(
    differences: pd.DataFrame,
    metric: str,
    task: str,
    share: float,
    theme: str,
    name: str = "rivals",
    height: int | None = None,
) -> Exhibit:
    """Every method minus the graft of one size, paired by example."""
    on = readable(task)
    shown = differences[differences["metric"] == metric]
    words = [
        f"{method_style(method).title} {metric_row(metric).change(value)}"
        for method, value in zip(shown["method"], centers(shown, 1.0), strict=True)
    ]
    side = "Left" if metric_row(metric).better == "lower" else "Right"
    return Exhibit(
        name=f"methods_{name}_{metric}",
        title=f"{metric_row(metric).heading} − graft",
        figure=rivals(differences, metric, theme=theme, height=height),
        reads=f"each method minus the graft of {formats.share(share)}, on the same test examples of {on}. {side} of "
        "the dotted line, the method is better; where its 95% interval crosses the line, there is no clear difference. "
        "Of a method with several sizes, the one nearest to the graft's is shown.",
        intervals=OVER_SEEDS,
        alt=f"{metric_row(metric).title} on {on}, method minus graft: {'; '.join(words)}.",
        table=differences,
        words=("paired", "ece", "debiased"),
    )


def debiased_alone(points: pd.DataFrame, metric: str) -> tuple[pd.DataFrame, str]:
    """The points of a metric, and the end of a sentence on intervals that names the points left out: if some
    calibration errors are debiased, the plug-in ones are, because they are of another kind."""
    shown = points[points["metric"] == metric]
    known = shown["debiased"].notna()
    if known.all() or not known.any():
        return shown, ""
    words = metric_row(metric).title
    return shown[known], f"; sizes without stored predictions, whose {words} cannot be debiased, are left out"


def touched_reads(shown: pd.DataFrame, metric: str) -> str:
    """The reading instructions for the figure of these points, without the intervals' basis."""
    better = metric_row(metric).better
    if is_printed(shown, metric):
        return (
            "a row is a method, a column a share of parameters that it touches. Each cell has the value and under it "
            f"its interval; {better} is better and stronger in colour, the best of a column is bold. A method with "
            "one size of its own, as the fine-tuned model with 100%, has one number in its row."
        )
    return (
        f"left is fewer parameters touched, {better} is better. A mark is one method, a line one at several sizes, a "
        "vertical line an interval. Methods that touch the same number are drawn side by side."
    )


def touched_words(rows: pd.DataFrame, metric: str) -> str:
    """The best points, NAMED at most: method, the share that it touches, and its value."""
    rows = rows.assign(value=centers(rows, 1.0))
    order = np.argsort(-metric_row(metric).merit(rows["value"]), kind="stable")
    words = [
        f"{method_style(row['method'], row['recipe'], row['label'], RECIPE_WORDS).title}, "
        f"{formats.share(row['touched'])} touched, {metric_value(metric, row['value'])}"
        for row in rows.iloc[order[:NAMED]].to_dict("records")
    ]
    rest = [f"{len(rows) - NAMED} more in the table"] if len(rows) > NAMED else []
    return ("best is " if words else "") + "; ".join([*words, *rest])
