"""The paper page's exhibit: published values beside those measured here."""

from __future__ import annotations

import pandas as pd

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.plots.methods import method_style
from skillviz.plots.paper import beside
from skillviz.show.exhibit import Exhibit, drawn_once


@drawn_once
def values(marks: pd.DataFrame, table: pd.DataFrame, metric: str, title: str, theme: str) -> Exhibit:
    """One metric of every task and method, published and here; `table` are the rows as words."""
    tasks = list(dict.fromkeys(table["task"]))
    words = metric_row(metric)
    both = set(marks["source"]) == {"here", "published"}
    ours = "filled marks are measured here, with 95 % intervals over examples and seeds; " if both else ""
    phrases = [
        f"{row['task']}, {method_style(row['method']).title}, {row['source']} {formats.percent(row['value'])}"
        for row in marks.to_dict("records")
    ]
    return Exhibit(
        name="paper_values",
        title=f"{words.heading}, {title}",
        figure=beside(marks, tasks, metric, theme=theme),
        reads=f"{ours}hollow ones are published, with one standard deviation over five samples of the data. Tasks go "
        "by their published names where there is one; the table says what stands for them here.",
        alt=f"{words.title} published and here. {'; '.join(phrases)}.",
        table=table,
        words=("published", "ece"),
    )
