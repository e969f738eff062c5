"""Tables over several finished runs: means over seeds, and paired differences between localizers."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd

from skillviz.core.intervals import seeds_interval
from skillviz.core.metrics import COMPARED, with_own
from skillviz.runs.pooled import difference, sampled
from skillviz.runs.run import Run

TABLE = {
    "task": "str", "finetuned": "str", "localizer": "str",
    "size": "float64", "share": "float64", "split": "str", "metric": "str",
    "mean": "float64", "sd": "float64", "low": "float64", "high": "float64", "seeds": "int64",
    "pooled_low": "float64", "pooled_high": "float64",
}  # fmt: skip
DIFFERENCES = {
    "task": "str", "finetuned": "str",
    "size": "int64", "share": "float64", "split": "str", "metric": "str", "a": "str", "b": "str",
    "value": "float64", "low": "float64", "high": "float64", "n": "int64", "seeds_a": "int64", "seeds_b": "int64",
}  # fmt: skip
NONE = (np.nan, np.nan)

Key = TypeVar("Key", bound=Hashable)


def table(runs: Sequence[Run], split: str = "test") -> pd.DataFrame:
    """One row a task, localizer, size and metric of the graft: mean, sd (n - 1) and t-interval over seeds.

    `low` and `high` speak of seeds only and are NaN for a single one. `pooled_low` and `pooled_high` are
    the bootstrap interval over examples and seeds together, for the runs' main size and the metrics that
    can be resampled; NaN elsewhere. A size that is an outcome is averaged over seeds.
    """
    rows = []
    for setting in grouped(runs, _setting).values():
        found = []
        for title, side in _sides(setting).items():
            for group in grouped(side, lambda run: run.spec.sizes).values():
                found += _rows(title, group, split)
        rows += _once(found)
    frame = pd.DataFrame(rows, columns=list(TABLE)).astype(TABLE)
    return frame.sort_values(["task", "finetuned", "metric", "size", "localizer"], ignore_index=True, kind="stable")


def differences(runs: Sequence[Run], split: str = "test", metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """One row a pair of localizers (a, b) of one setting and main size, and metric: a - b, averaged over seeds.

    Intervals are paired: both sides are scored on the same resampled examples, and seeds are resampled
    too. F1 only where it is the task's metric.
    """
    rows = []
    for group in grouped(runs, lambda run: (*_setting(run), run.record.size)).values():
        sides = _sides(group)
        common = {**_named(group[0]), "size": group[0].record.size, "share": group[0].record.share}
        for metric in (metrics or _compared(group[0])) if len(sides) > 1 else ():
            found, n = sampled(sides, metric, split)
            for a, b in itertools.permutations(found, 2):
                ends = difference(found[a], found[b])._asdict()
                seeds = {"seeds_a": len(sides[a]), "seeds_b": len(sides[b])}
                rows.append({**common, "split": split, "metric": metric, "a": a, "b": b, **ends, "n": n, **seeds})
    return pd.DataFrame(rows, columns=list(DIFFERENCES)).astype(DIFFERENCES)


def grouped(runs: Sequence[Run], key: Callable[[Run], Key]) -> dict[Key, list[Run]]:
    """The runs by a key, in their order."""
    found: dict[Key, list[Run]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return found


def _rows(title: str, group: list[Run], split: str) -> list[dict[str, Any]]:
    """The rows of runs that differ in their seed only."""
    pooled = {}
    for metric in _compared(group[0]):
        _, low, high = sampled({title: group}, metric, split).sides[title].interval()
        pooled[metric] = (low, high)
    rows = []
    curves = pd.concat([_curve(run, split) for run in group]).groupby(["metric", "place"], sort=False)
    for number, values in curves:
        metric, place = cast(tuple[str, int], number)
        ends = pooled.get(metric, NONE) if place == 0 else NONE
        row: dict[str, Any] = {**_named(group[0]), "localizer": title, "split": split, "metric": metric}
        row |= {"size": values["size"].mean(), "share": values["share"].mean(), **_over_seeds(values["value"])}
        rows.append(row | {"pooled_low": ends[0], "pooled_high": ends[1]})
    return rows


def _over_seeds(values: pd.Series) -> dict[str, float]:
    defined = values.dropna()
    if not len(defined):
        return {"mean": np.nan, "sd": np.nan, "low": np.nan, "high": np.nan, "seeds": 0}
    mean, low, high, sd, n = seeds_interval(defined)
    return {"mean": mean, "sd": sd, "low": low, "high": high, "seeds": n}


def _curve(run: Run, split: str) -> pd.DataFrame:
    """The run's curve with `place`: where each size stands among the run's sizes, the main one 0."""
    curve = run.curve()
    places = {size: place for place, size in enumerate(run.record.sizes)}
    return curve[curve["split"] == split].assign(place=curve["size"].map(places))


def _once(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A size that several groups of runs were asked for is told once: where there are most seeds."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (-row["seeds"], math.isnan(row["pooled_low"]))):
        found.setdefault((row["localizer"], row["size"], row["metric"]), row)
    return list(found.values())


def _sides(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs that differ in seed and size only, by a title: the localizer's name, and whatever else differs.

    Of two runs that are equal in everything the first counts: a seed is one seed, however often it was run.
    """
    variants = grouped(runs, lambda run: json.dumps(_asked(run), sort_keys=True))
    titles = {}
    for group in variants.values():
        own = _asked(group[0])
        rivals = [_asked(g[0]) for g in variants.values() if g[0].spec.localizer == group[0].spec.localizer]
        fields = dict.fromkeys(name for rival in rivals for name in rival)
        different = [n for n in fields if any(rival.get(n) != own.get(n) for rival in rivals)]
        settings = [f"{n}={_written(own[n])}" for n in different if own.get(n) is not None]
        titles[" ".join([group[0].spec.localizer, *settings])] = _distinct(group)
    return titles


def _asked(run: Run) -> dict[str, Any]:
    """What was asked for besides pair, task, seed and sizes, the localizer's options field by field."""
    fields = run.spec.model_dump(mode="json", exclude={"base", "finetuned", "task", "seed", "sizes", "options"})
    return {**fields, **run.spec.options}


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _distinct(runs: list[Run]) -> list[Run]:
    found: dict[tuple[Any, ...], Run] = {}
    for run in runs:
        found.setdefault((run.spec.seed, run.spec.sizes), run)
    return list(found.values())


def _compared(run: Run) -> list[str]:
    return with_own(run.record.metric, COMPARED)


def _setting(run: Run) -> tuple[str, ...]:
    """What must be equal for two runs to be compared: the pair, the task and its data."""
    record = run.record
    members = [note.fingerprint if note else "" for note in (record.base, record.finetuned, record.task)]
    return (run.record.task_name, *members)


def _named(run: Run) -> dict[str, str]:
    return {"task": run.record.task_name, "finetuned": Path(run.spec.finetuned).name}
