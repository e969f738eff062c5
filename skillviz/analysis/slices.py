"""Slices: the graft compared with the fine-tuned model on parts of the data, by class, length or any other column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from skillviz.analysis.answers import Answers
from skillviz.core.intervals import Interval, metric_difference
from skillviz.core.metrics import likelihood_metric, metric_row, right_metric, statistic
from skillviz.errors import BadInput
from skillviz.runs.texts import CLASS

LEAST = {"accuracy": 20, "nll": 150, "exact_match": 20, "perplexity": 150}
"""The metrics for slices, with the fewest examples of a slice that gets an interval: a few examples may lack the
large losses that decide a likelihood (docs/research/coverage.md). F1 is not defined if all examples have one class."""
MOST_VALUES = 12
QUARTILES = 4
MOST_NUMBERS = 5
COLUMNS = ("column", "name", "n", "graft", "finetuned", "value", "low", "high", "gained", "lost")


def metrics_of(metric: str) -> tuple[str, ...]:
    """The metrics of LEAST for a task with this metric: correctness and likelihood."""
    return tuple(dict.fromkeys((right_metric(metric), likelihood_metric(metric))))


class Slice(NamedTuple):
    """Examples that share a value of a column, or a range of numbers: `rows` [n] is their mask."""

    column: str
    name: str
    rows: np.ndarray


def slices_of(columns: pd.DataFrame) -> list[Slice]:
    """The slices of each column of a table with one row per example.

    Up to MOST_VALUES values are one slice each; if there are more texts, the most frequent ones are, and the rest form
    one slice. Numbers with more than MOST_NUMBERS values are cut at their quartiles, or at the one value that more than
    half of the examples have. An empty text is a missing value, as in CSV files. A column with one value has no slices,
    nor does one with texts that hardly repeat.
    """
    return [Slice(str(column), *one) for column in columns for one in _of_column(columns[column])]


def sliceable(columns: pd.DataFrame) -> list[str]:
    """The columns that have slices."""
    return list(dict.fromkeys(one.column for one in slices_of(columns)))


def _of_column(values: pd.Series) -> list[tuple[str, np.ndarray]]:
    values = values.where(values.ne(""))
    known = values.dropna()
    numbers = pd.to_numeric(known, errors="coerce") if known.dtype != bool else pd.Series(dtype=float)
    if known.nunique() > MOST_NUMBERS and numbers.notna().all():
        parts = _quartiles(pd.to_numeric(values, errors="coerce"))
    else:
        counts = known.astype(str).value_counts(sort=False).sort_index().sort_values(ascending=False, kind="stable")
        if len(counts) > MOST_VALUES and len(counts) > len(known) / 2:
            return []
        kept = counts.index[: MOST_VALUES - 1] if len(counts) > MOST_VALUES else counts.index
        text = values.astype(str).where(values.notna())
        parts = [(str(name), (text == name).to_numpy(bool)) for name in kept]
        if len(kept) < len(counts):
            parts.append(("other values", (~text.isin(kept) & values.notna()).to_numpy(bool)))
    if values.isna().any():
        parts.append(("missing", values.isna().to_numpy(bool)))
    return parts if len(parts) > 1 else []


def _quartiles(numbers: pd.Series) -> list[tuple[str, np.ndarray]]:
    """Ranges with about equally many examples, or the examples below, at and above the value of more than half of
    them; both ends inclusive, named by the smallest and largest value."""
    usual = numbers.mode()[0]
    if (numbers == usual).sum() > numbers.count() / 2:
        places = (numbers > usual).astype(float).mask(numbers < usual, -1).where(numbers.notna())
    else:  # by ranks, because a number may be infinite
        places = pd.qcut(numbers.rank(), QUARTILES, labels=False, duplicates="drop")
    place = places.to_numpy(float)
    spans = []
    for number in np.unique(place[~np.isnan(place)]):
        rows = place == number
        low, high = numbers[rows].min(), numbers[rows].max()
        spans.append((f"{low:g}" if low == high else f"{low:g} to {high:g}", rows))
    return spans


def slice_differences(
    graft: Answers, finetuned: Answers, columns: pd.DataFrame, metric: str, positive: int = 1
) -> pd.DataFrame:
    """One row per slice: the metric of both models, and graft - fine-tuned with its paired 95% interval.

    `columns` is indexed by example id. `gained` and `lost` are the examples that only the graft and only the
    fine-tuned model gets right. Slices of fewer than LEAST examples have no interval. Raises BadInput for a metric that
    is not in LEAST.
    """
    if metric not in LEAST:
        raise BadInput(f"'{metric}' is not a metric of slices; known: {', '.join(LEAST)}.")
    if list(graft.ids) != list(finetuned.ids):
        raise ValueError("both models must have answered the same examples in the same order")
    rows = []
    for one in slices_of(columns.reindex(graft.ids)):
        a, b = graft.take(one.rows), finetuned.take(one.rows)
        n = len(a.labels)
        values = [float(statistic(metric, s.logits, s.labels, positive)(np.ones((1, n)))[0]) for s in (a, b)]
        less = Interval(np.nan, np.nan, np.nan)
        if n >= LEAST[metric]:
            less = metric_difference(a.logits, b.logits, a.labels, metric, positive)
        ends = (less.low, less.high, less.gained, less.lost)
        rows.append((one.column, one.name, n, *values, values[0] - values[1], *ends))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"gained": "Int64", "lost": "Int64"})


def worst_first(differences: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The rows with the slices that lose most by grafting on top; those too small for an interval come last."""
    gains = metric_row(metric).sign * differences["value"]
    ranks = pd.DataFrame({"small": differences["low"].isna(), "gains": gains})
    order = ranks.sort_values(["small", "gains"], kind="stable")
    return differences.loc[order.index].reset_index(drop=True)


def class_column(labels: np.ndarray, ids: Sequence[str], names: Sequence[str]) -> pd.DataFrame:
    """The true class of each example, as a table of columns indexed by example id."""
    return pd.DataFrame({CLASS: np.asarray(names, dtype=object)[labels]}, index=pd.Index(ids))
