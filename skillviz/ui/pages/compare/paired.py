"""Runs on the examples that they share: paired differences from a baseline, McNemar's test, reliability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.agreement import mcnemar
from skillviz.core.bins import BINS
from skillviz.core.calibration import reliability
from skillviz.core.intervals import paired_differences
from skillviz.plots.calibration import COLUMNS
from skillviz.runs.run import Run
from skillviz.runs.tables import logit_columns
from skillviz.show.entries import headline_split


@dataclass(frozen=True)
class Examples:
    """One state's logits [n, label] on a split, with ids and true classes [n], in the order of the ids."""

    ids: np.ndarray
    labels: np.ndarray
    logits: np.ndarray


def examples(run: Run, predictions: pd.DataFrame, state: str) -> Examples:
    """The logits of one state on the run's headline split."""
    split = headline_split(run.record)
    rows = predictions[(predictions["state"] == state) & (predictions["split"] == split)]
    rows = rows.sort_values("example_id", kind="stable")
    logits = rows[logit_columns(run.labels)].to_numpy(dtype=np.float64)
    return Examples(rows["example_id"].to_numpy(dtype=str), rows["label"].to_numpy(), logits)


def differences(found: Mapping[str, Examples], baseline: str, metrics: Sequence[str], positive: int) -> pd.DataFrame:
    """Each run less the baseline on the examples that both were scored on, with paired intervals.

    run, metric, value, low, high, n; for accuracy also McNemar's exact p and the examples that one of the two
    alone gets right. Runs that share the same examples with the baseline are resampled together.
    """
    groups: dict[tuple[int, ...], list[str]] = {}
    for key, other in found.items():
        if key != baseline:
            groups.setdefault(tuple(np.flatnonzero(np.isin(found[baseline].ids, other.ids))), []).append(key)
    rows = [
        row
        for place, keys in groups.items()
        if place
        for row in _paired(found, baseline, np.array(place), keys, metrics, positive)
    ]
    columns = ["run", "metric", "value", "low", "high", "n", "p", "only_run_right", "only_baseline_right"]
    frame = pd.DataFrame(rows, columns=columns).astype({"value": "float64", "low": "float64", "high": "float64"})
    counts = {name: "Int64" for name in ("n", "only_run_right", "only_baseline_right")}
    return frame.astype({**counts, "p": "float64"}).sort_values("run", kind="stable", ignore_index=True)


def _paired(
    found: Mapping[str, Examples],
    baseline: str,
    place: np.ndarray,
    keys: Sequence[str],
    metrics: Sequence[str],
    positive: int,
) -> list[dict[str, Any]]:
    """The rows of runs whose common examples with the baseline stand at `place` among the baseline's."""
    own = found[baseline]
    ids, labels, logits = own.ids[place], own.labels[place], own.logits[place]
    others = [found[key].logits[np.isin(found[key].ids, ids)] for key in keys]
    rows = []
    for key, other, row in zip(
        keys, others, paired_differences(logits, others, labels, metrics, positive=positive), strict=True
    ):
        test = mcnemar(other, logits, labels)
        for metric, interval in row.items():
            told = {"p": test.p, "only_run_right": test.n10, "only_baseline_right": test.n01}
            rows.append(
                {"run": key, "metric": metric, **interval._asdict(), "n": len(ids)}
                | (told if metric == "accuracy" else {})
            )
    return rows


def bins(found: Mapping[str, Examples]) -> pd.DataFrame:
    """The reliability tables of the runs, each under its letter in the column `state`."""
    parts = [reliability(one.logits, one.labels, BINS).assign(state=key) for key, one in found.items() if len(one.ids)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))
