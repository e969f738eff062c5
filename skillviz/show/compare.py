"""The compare page's exhibits: values, differences from the baseline, curves, reliability, shared entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.size_curve import by_size
from skillviz.core import formats
from skillviz.core.calibration_error import BINS
from skillviz.core.formats import read_first
from skillviz.core.metrics import metric_row
from skillviz.plots import compare as plots
from skillviz.plots.overlap import overlap_map
from skillviz.plots.sparsity import metric_by_size
from skillviz.plots.theme import Style
from skillviz.runs.record import Estimate
from skillviz.show import alt, calibration, measures, overlap
from skillviz.show.exhibit import OVER_EXAMPLES, PAIRED, Exhibit, drawn_once
from skillviz.show.sentences import better_sides, debiased_marks, metric_value

HEIGHT = 480
STATES = {"grafted": "grafts", "finetuned": "fine-tuned models"}


@drawn_once
def values(table: pd.DataFrame, marks: Mapping[str, Style], metric: str, state: str, theme: str) -> Exhibit:
    """One metric of each run's model, without comparison."""
    table = table[table["metric"] == metric].reset_index(drop=True)
    beside = "; the round mark is the fine-tuned model" if state == "grafted" else ""
    return Exhibit(
        name=f"compare_values_{metric}",
        title=metric_row(metric).heading,
        figure=plots.values(table, marks, (metric,), theme=theme),
        reads=f"one mark per run: the {STATES[state]}, with 95% intervals over examples{beside}. "
        f"{better_sides((metric,))} Where intervals overlap, look at the differences.",
        intervals=OVER_EXAMPLES,
        alt=f"Scores. {_each(table, lambda row: metric_value(metric, read_first(row['value'], row['debiased'])[0]))}",
        table=table,
        words=(metric,),
    )


@drawn_once
def differences(
    table: pd.DataFrame,
    marks: Mapping[str, Style],
    baseline: str,
    metric: str,
    theme: str,
) -> Exhibit:
    """One metric of each run's model minus the baseline's, on the same examples."""
    table = table[table["metric"] == metric].reset_index(drop=True)
    return Exhibit(
        name=f"compare_differences_{metric}",
        title=f"{metric_row(metric).heading} − baseline",
        figure=plots.differences(table, marks, baseline, (metric,), theme=theme),
        reads=f"the dotted line is {baseline}. Where an interval crosses it, there is no clear difference. "
        f"{better_sides((metric,))} Intervals are 95%, paired over the shared examples, and not adjusted for their "
        "number: of 20 comparisons of equal models, about one misses the line by chance.",
        intervals=PAIRED,
        alt=f"Difference from {baseline}. {_each(table, lambda row: _difference(metric, row))}",
        table=table,
        words=("paired",),
    )


def _each(table: pd.DataFrame, words: Callable[[Mapping[Any, Any]], str]) -> str:
    """Each run's metric in these words, one after the other."""
    rows = table.to_dict("records")
    return "; ".join(f"{row['run']} {metric_row(row['metric']).title} {words(row)}" for row in rows) + "."


def _difference(metric: str, row: Mapping[Any, Any]) -> str:
    return metric_row(metric).difference(row["value"], row["low"], row["high"], row.get("debiased"))


@drawn_once
def sizes(
    curve: pd.DataFrame, marks: Mapping[str, Style], metric: str, levels: Mapping[str, float], theme: str
) -> Exhibit:
    """Each run's curve over region sizes."""
    points = measures.plug_in_where_mixed(by_size(curve, metric, ()), metric)
    return Exhibit(
        name="compare_sizes",
        title=f"{metric_row(metric).heading} by region size",
        figure=metric_by_size(
            points,
            metric,
            references=levels,
            per_run=(),
            styles=marks,
            direct=True,
            theme=theme,
            height=HEIGHT,
        ),
        reads="one line per run, at the sizes it was scored at; a run with one size is a single mark. Vertical lines "
        f"are 95% intervals over examples. {debiased_marks(metric, points)}".rstrip(),
        intervals=OVER_EXAMPLES,
        alt=alt.sparsity(points, metric),
        table=points,
        words=("size", "chance"),
    )


AREAS = {"given": "graft gives, % of the gain", "cost": "removal costs, % of the gain"}


def area_table(found: pd.DataFrame) -> pd.DataFrame:
    """The areas of `necessity.areas` as texts, one row per run; curves of fewer than two sizes are marked."""
    rows = dict[str, dict[str, str]]()
    for (run, curve), row in zip(found.index, found.to_dict("records"), strict=True):
        text = formats.percent_estimate(row["value"], row["low"], row["high"])
        of_few = "one size" if row["sizes"] else "not scored"
        none = of_few if row["sizes"] < 2 else "no size in common"
        rows.setdefault(run, {"run": run})[AREAS[curve]] = none if np.isnan(row["value"]) else text
    return pd.DataFrame(list(rows.values()))


def area_words(found: pd.DataFrame) -> str:
    """An explanation of the areas, with the range of sizes."""
    known = found.dropna(subset=["value"])
    if known.empty:
        return "An area needs two sizes that all runs have in common. Start runs with several sizes to see it."
    ends = (formats.share(known[name].iloc[0]) for name in ("smallest", "largest"))
    return (
        f"Mean share of the gain over region sizes from {' to '.join(ends)}, on a logarithmic axis. 95% intervals, "
        "joined over the sizes as if all erred alike, which makes them as wide as they can be."
    )


def reliability(
    bins: pd.DataFrame, marks: Mapping[str, Style], errors: Mapping[str, Estimate], state: str, theme: str
) -> Exhibit:
    """Accuracy against confidence of every run's model, in bins of equal width, with its calibration error."""
    title = f"Reliability of the {STATES[state]} ({BINS} bins)"
    return calibration.reliability(bins, theme, "compare_reliability", title, marks, errors)


@drawn_once
def shared(table: pd.DataFrame, kind: str, theme: str) -> Exhibit:
    """The share of entries that every two regions have in common: `iou` or `overlap`."""
    return Exhibit(
        name=f"compare_{kind}",
        title=overlap.TITLES[kind],
        figure=overlap_map(table, kind, theme=theme),
        reads=overlap.reads(kind, table["column"].nunique()),
        alt=overlap.alt(table, kind),
        table=table,
        words=(kind, "matched"),
    )
