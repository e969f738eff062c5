"""The compare page's exhibits: values, differences from the baseline, curves, reliability, shared entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from skillviz.analysis.size_curve import by_size
from skillviz.core.bins import BINS
from skillviz.core.metrics import metric_row
from skillviz.plots import compare as plots
from skillviz.plots.overlap import overlap_map
from skillviz.plots.sparsity import metric_by_size
from skillviz.plots.theme import Style
from skillviz.show import alt, calibration, overlap
from skillviz.show.exhibit import Exhibit, drawn_once
from skillviz.show.sentences import better_sides, metric_value, plug_in_marks

HEIGHT = 480
STATES = {"grafted": "grafts", "finetuned": "fine-tuned models"}


@drawn_once
def values(table: pd.DataFrame, marks: Mapping[str, Style], metrics: Sequence[str], state: str, theme: str) -> Exhibit:
    """What each run's model does, alone."""
    beside = " and, as round marks, of the fine-tuned models" if state == "grafted" else ""
    return Exhibit(
        name="compare_values",
        title="Values",
        figure=plots.values(table, marks, metrics, theme=theme),
        reads=f"one mark a run: the values of the {STATES[state]}{beside}, with 95 % intervals over examples. "
        f"{better_sides(metrics)} Where intervals overlap, only the differences can decide.",
        alt=_alt_words("Values", table, marks),
        table=table,
        words=tuple(metrics),
    )


@drawn_once
def differences(
    table: pd.DataFrame, marks: Mapping[str, Style], baseline: str, metrics: Sequence[str], theme: str
) -> Exhibit:
    """What each run's model does less the baseline's, on the same examples."""
    return Exhibit(
        name="compare_differences",
        title=f"Differences from {baseline}",
        figure=plots.differences(table, marks, baseline, metrics, theme=theme),
        reads="the upright line is the baseline. A run whose interval leaves the line out differs; one whose interval "
        "crosses it may not. Intervals are paired over the shared examples, one comparison at a time: of "
        "twenty comparisons of equal models, about one leaves the line out by luck.",
        alt=_alt_words(f"Differences from {baseline}", table, marks),
        table=table,
        words=("paired",),
    )


def _alt_words(title: str, table: pd.DataFrame, marks: Mapping[str, Style]) -> str:
    words = [
        f"{marks[str(run)].title} {metric_row(str(metric)).title} {metric_value(str(metric), value)}"
        for run, metric, value in zip(table["run"], table["metric"], table["value"], strict=True)
    ]
    return f"{title}. " + "; ".join(words) + "."


@drawn_once
def sizes(
    curve: pd.DataFrame, marks: Mapping[str, Style], metric: str, levels: Mapping[str, float], theme: str
) -> Exhibit:
    """Each run's curve over region sizes."""
    points = by_size(curve, metric, ())
    return Exhibit(
        name="compare_sizes",
        title=f"{metric_row(metric).heading} by region size",
        figure=metric_by_size(points, metric, references=levels, per_run=(), styles=marks, theme=theme, height=HEIGHT),
        reads="one line a run, at the sizes that it was evaluated at; a run of one size is a single mark. Vertical "
        f"lines are 95 % intervals over examples. {plug_in_marks(metric)}".rstrip(),
        alt=alt.sparsity(points.assign(localizer=points["localizer"].map(lambda key: marks[key].title)), metric),
        table=points,
        words=("size", "chance"),
    )


def reliability(bins: pd.DataFrame, marks: Mapping[str, Style], state: str, theme: str) -> Exhibit:
    """Accuracy against confidence of every run's model, in bins of equal width."""
    title = f"Reliability of the {STATES[state]}, in {BINS} bins of equal width"
    return calibration.reliability(bins, theme, "compare_reliability", title, marks)


@drawn_once
def shared(table: pd.DataFrame, kind: str, theme: str) -> Exhibit:
    """How much every two regions share: `iou` or `overlap`."""
    return Exhibit(
        name=f"compare_{kind}",
        title=overlap.TITLES[kind],
        figure=overlap_map(table, kind, theme=theme),
        reads=overlap.reads(kind, table["column"].nunique()),
        alt=overlap.alt(table, kind),
        table=table,
        words=(kind, "matched"),
    )
