"""Slices of the data: the graft's losses and gains compared with the fine-tuned model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from skillviz.analysis.answers import Answers, answers_of_state
from skillviz.analysis.slices import class_column, slice_differences, worst_first
from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import NOT_MEASURED
from skillviz.plots.forest import forest
from skillviz.runs.example_sets import ExampleSet
from skillviz.runs.record import RunRecord
from skillviz.show.comparisons import compared_rows, counted, holding
from skillviz.show.exhibit import PAIRED, Exhibit, drawn_once

DIFFERENCE = "graft − fine-tuned"
TITLES = {"class": "true class", "words": "length in words"}


def title(column: str) -> str:
    """A column's title on pages."""
    return TITLES.get(column, column)


def pair_answers(predictions: pd.DataFrame, record: RunRecord, split: str) -> tuple[Answers, Answers]:
    """The answers of graft and fine-tuned model on the run's own task."""
    labels = record.task.labels if record.task else ()
    graft, tuned = (answers_of_state(predictions, split, labels, state) for state in ("grafted", "finetuned"))
    return graft, tuned


def columns_of(graft: Answers, classes: Sequence[str], others: pd.DataFrame | None) -> pd.DataFrame:
    """The columns to slice by, indexed by example id: the true class, and the data's own columns; each if available."""
    if not classes:
        return pd.DataFrame(index=pd.Index(list(graft.ids))) if others is None else others
    named = class_column(graft.labels, list(graft.ids), classes)
    return named if others is None else named.join(others)


def with_sets(columns: pd.DataFrame, sets: Iterable[ExampleSet], examples: str) -> pd.DataFrame:
    """The columns, and a column for each named set of these test data, whose digest is `examples`.

    Sets that were chosen by answers are left out: a difference between the models on them would only show the choice.
    """
    fitting = [one for one in sets if one.examples == examples and not one.by_answers]
    inside = {f"set {one.name}": np.where(columns.index.isin(one.ids), "in it", "not in it") for one in fitting}
    return columns.assign(**inside)


def differences(graft: Answers, tuned: Answers, columns: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The table of `analysis.slices`, losses on top, with `holds`: True for a discovery at the false discovery rate
    of `core.many_comparisons`."""
    table = worst_first(slice_differences(graft, tuned, columns, metric), metric)
    verdicts = [metric_row(metric).verdict(low, high) for low, high in zip(table["low"], table["high"], strict=True)]
    return table.assign(verdict=verdicts, holds=holding(table))


def finding(table: pd.DataFrame, metric: str, safe: Callable[[str], str] = str) -> str:
    """The slices that lose by grafting, and the number expected by chance; `safe` escapes text from the data."""
    if table.empty:
        return "All examples are alike in these columns, so there is nothing to compare."
    words = metric_row(metric)
    lost, gained = (table[(table["verdict"] == verdict)] for verdict in ("worse", "better"))
    losses = [
        f"**{safe(_name(row))}** ({words.change(row['value'])}, {words.ends(row['low'], row['high'])}, "
        f"n = {row['n']:,})"
        for row in lost.to_dict("records")
    ]
    small = int((table["verdict"] == NOT_MEASURED).sum())
    without = f"Too small for an interval: {formats.counted(small, 'slice')}." if small else ""
    of = formats.counted(len(table) - small, "slice")
    if small == len(table):
        first = f"The graft's {words.title} is {NOT_MEASURED} on any slice."
    elif losses or len(gained):
        on = formats.listed(losses, 3) if losses else "no slice"
        first = f"The graft is worse in {words.title} on {on} and better on {len(gained)} of {of}."
    else:
        first = f"The graft is neither worse nor better in {words.title} on any of {of}."
    return " ".join(filter(None, (first, counted(compared_rows(table)), without)))


def _name(row: dict) -> str:
    """`true class: negative`."""
    return f"{title(row['column'])}: {row['name']}"


@drawn_once
def by_slice(table: pd.DataFrame, metric: str, theme: str) -> Exhibit:
    """The difference of each slice with its interval, losses on top."""
    words = metric_row(metric)
    rows = table.assign(
        name=[f"{_name(row)} ({row['n']:,})" for row in table.to_dict("records")], order=range(len(table))
    )
    worst = ", ".join(
        f"{name} {words.change(value)}" for name, value in zip(rows["name"][:3], rows["value"][:3], strict=True)
    )
    return Exhibit(
        name="slices",
        title="Graft and fine-tuned model by slice",
        figure=forest(rows, metric, DIFFERENCE, "slice", theme=theme),
        reads=f"each row is a part of the examples, their number in brackets; the line is the paired 95% interval. "
        f"Rows that lose {words.title} by grafting are on top. Numbers are cut at their quartiles.",
        intervals=PAIRED,
        alt=f"{formats.counted(len(table), 'slice')} by {words.title}, graft minus fine-tuned; first: {worst}.",
        table=table,
        words=("paired",),
    )
