"""Stored runs less one of them, on the examples that both were scored on, with McNemar's test of equal accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.answers import Answers
from skillviz.core.agreement import mcnemar
from skillviz.core.intervals import paired_differences

COLUMNS = ("run", "metric", "value", "low", "high", "n", "p", "only_run_right", "only_baseline_right")


def differences(
    answers_by_run: Mapping[str, Answers], baseline: str, metrics: Sequence[str], positive: int
) -> pd.DataFrame:
    """Each run less the baseline on the examples that both were scored on, with paired intervals.

    run, metric, value, low, high, n; for accuracy also McNemar's exact p and the examples that one of the two
    alone gets right. Runs that share the same examples with the baseline are resampled together.
    """
    groups: dict[tuple[int, ...], list[str]] = {}
    for key, answers in answers_by_run.items():
        if key != baseline:
            shared = np.flatnonzero(np.isin(answers_by_run[baseline].ids, answers.ids))
            groups.setdefault(tuple(shared), []).append(key)
    rows = [
        row
        for place, keys in groups.items()
        if place
        for row in _rows(answers_by_run, answers_by_run[baseline].take(np.array(place)), keys, metrics, positive)
    ]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    counts = {name: "Int64" for name in ("n", "only_run_right", "only_baseline_right")}
    frame = frame.astype({"value": "float64", "low": "float64", "high": "float64", "p": "float64", **counts})
    return frame.sort_values("run", kind="stable", ignore_index=True)


def _rows(
    answers_by_run: Mapping[str, Answers],
    baseline: Answers,
    keys: Sequence[str],
    metrics: Sequence[str],
    positive: int,
) -> list[dict[str, Any]]:
    """The rows of runs that share exactly these examples with the baseline."""
    logits = [answers_by_run[key].logits[np.isin(answers_by_run[key].ids, baseline.ids)] for key in keys]
    intervals = paired_differences(baseline.logits, logits, baseline.labels, metrics, positive=positive)
    rows = []
    for key, of_run, by_metric in zip(keys, logits, intervals, strict=True):
        test = mcnemar(of_run, baseline.logits, baseline.labels)
        by_accuracy = {"p": test.p, "only_run_right": test.n10, "only_baseline_right": test.n01}
        for metric, interval in by_metric.items():
            row = {"run": key, "metric": metric, **interval._asdict(), "n": len(baseline.ids)}
            rows.append(row | (by_accuracy if metric == "accuracy" else {}))
    return rows
