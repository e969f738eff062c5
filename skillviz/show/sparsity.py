"""The sparsity page's exhibit: a metric by region size."""

from __future__ import annotations

import pandas as pd

from skillviz.analysis.size_curve import by_size
from skillviz.core.metrics import metric_row
from skillviz.plots.sparsity import metric_by_size
from skillviz.runs.record import RunRecord
from skillviz.show import alt, measures, sentences
from skillviz.show.exhibit import Exhibit, drawn_once

HEIGHT = 520


@drawn_once
def sizes(curve: pd.DataFrame, record: RunRecord, split: str, metric: str, theme: str) -> Exhibit:
    """One line a localizer over all runs of a pair; `curve` as of `measures.pair_curve`."""
    levels, points = measures.levels(record, split, metric), by_size(curve, metric)
    return Exhibit(
        name="sparsity",
        title=f"{metric_row(metric).heading} by region size",
        figure=metric_by_size(points, metric, references=levels, theme=theme, height=HEIGHT),
        reads=sentences.sparsity_reads(points),
        alt=alt.sparsity(points, metric),
        table=points,
        words=("seed", "chance"),
        finding=sentences.sparsity(points, metric, levels.get("finetuned")),
    )
