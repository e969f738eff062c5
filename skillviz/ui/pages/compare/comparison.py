"""Several runs side by side: names, scores, curves and regions as tables, differences on the examples they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.core.agreement import mcnemar
from skillviz.core.bins import BINS
from skillviz.core.calibration import reliability
from skillviz.core.intervals import paired_differences
from skillviz.core.metrics import panels
from skillviz.core.overlap import chance_iou_matrix, chance_overlap_matrix, iou_matrix, overlap_matrix
from skillviz.core.region import Region
from skillviz.plots.calibration import COLUMNS
from skillviz.plots.compare import run_styles
from skillviz.plots.theme import Style, localizer_style, state_style
from skillviz.runs.record import RunRecord
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.tables import logit_columns
from skillviz.show import text
from skillviz.show.entries import Entry, headline_split

LETTERS = "ABCDEF"
FEWEST, MOST = 2, len(LETTERS)
NOT_GIVEN, DEFAULT, DIFFERS = "not given", " (default)", "≠ "
WITHOUT_DEFAULT = ("base", "finetuned", "task")


@dataclass(frozen=True)
class Side:
    """One of the runs; `key` is its letter, `name` the letter with what tells it from the others."""

    key: str
    name: str
    entry: Entry
    run: Run

    @property
    def record(self) -> RunRecord:
        """The run's record."""
        return self.run.record


def sides(entries: Sequence[Entry], runs: Sequence[Run]) -> tuple[Side, ...]:
    """The runs under letters, in their order."""
    rows = zip(LETTERS, short_names(entries), entries, runs, strict=False)
    return tuple(Side(key, f"{key} {name}", entry, run) for key, name, entry, run in rows)


def short_names(entries: Sequence[Entry]) -> list[str]:
    """`stagewise`, and of pair, size, seed and settings what differs among the entries; ids where nothing does."""
    parts = {
        "pair": [f"{text.last_part(e.finetuned)} · {e.task}" for e in entries],
        "base": [text.last_part(e.base) for e in entries],
        "share": [formats.share(e.share) for e in entries],
        "seed": [f"seed {e.seed}" for e in entries],
    }
    differing = [values for values in parts.values() if len(set(values)) > 1]
    names = [", ".join([localizer_style(e.localizer).title, *own]) for e, *own in zip(entries, *differing, strict=True)]
    return [f"{n}, {e.id[-6:]}" if names.count(n) > 1 else n for n, e in zip(names, entries, strict=True)]


def unlike(side: Side, baseline: Side) -> str:
    """Why no paired difference to the baseline can be taken: a clause, or nothing where it can."""
    if side.key == baseline.key:
        return ""
    one, other = side.record.task, baseline.record.task
    if one is None or other is None:
        return "its run does not say what it was scored on"
    if one.name != other.name or one.labels != other.labels:
        return f"it was scored on another task ({one.name}, not {other.name})"
    if one.fingerprint != other.fingerprint:
        return f"its {one.name} data are not the baseline's (their sha256 differ)"
    if headline_split(side.record) != headline_split(baseline.record):
        return "the two were scored on different splits"
    return ""


def metrics_of(baseline: Side) -> tuple[str, ...]:
    """The metrics that are compared: the task's own, ECE and NLL."""
    return tuple(panels(baseline.record.metric))


def values(runs: Sequence[Side], state: str, metrics: Sequence[str]) -> pd.DataFrame:
    """run, metric, value, low, high of one state, as the runs themselves stored them; beside grafts, fine-tuned too.

    A fine-tuned model that several runs share is one row, under `tuned` and their letters.
    """
    rows = [row for side in runs for row in _rows(side.key, side, state, metrics)]
    if state == "grafted":
        rows += [row for key, side in tuned(runs).items() for row in _rows(key, side, "finetuned", metrics)]
    return pd.DataFrame(rows, columns=["run", "metric", "value", "low", "high"]).astype(
        {"value": "float64", "low": "float64", "high": "float64"}
    )


def tuned(runs: Sequence[Side]) -> dict[str, Side]:
    """One run for each fine-tuned model and data set, by `tuned` or, where there are several, `tuned A, C`."""
    groups: dict[tuple[str, ...], list[Side]] = {}
    for side in runs:
        groups.setdefault(side.entry.pair, []).append(side)
    names = ["tuned" if len(groups) == 1 else f"tuned {', '.join(s.key for s in group)}" for group in groups.values()]
    return {name: group[0] for name, group in zip(names, groups.values(), strict=True)}


def _rows(key: str, side: Side, state: str, metrics: Sequence[str]) -> list[dict[str, Any]]:
    scores = side.record.metrics.get(headline_split(side.record))
    estimates = scores.states.get(state, {}) if scores else {}
    return [{"run": key, "metric": m, **estimates[m].model_dump()} for m in metrics if m in estimates]


def styles(sides: Sequence[Side], finetuned: Sequence[str] = ()) -> dict[str, Style]:
    """Colour and marks of each run, and of the fine-tuned models under these names."""
    style = state_style("finetuned")
    others = {key: Style(f"fine-{key}", style.color, style.symbol, style.dash) for key in finetuned}
    return run_styles([(side.key, side.entry.localizer, side.name) for side in sides]) | others


def curves(runs: Sequence[Side], tables: Mapping[str, pd.DataFrame], split: str) -> pd.DataFrame:
    """The runs' curves as one, each under its letter in the column `localizer`."""
    parts = [tables[side.key].assign(localizer=side.key, dataset="") for side in runs]
    whole = pd.concat(parts, ignore_index=True)
    return whole[whole["split"] == split]


def shares(regions: Mapping[str, Region], kind: str) -> pd.DataFrame:
    """row, column, value, chance of every two regions; `kind` is `iou` or `overlap`."""
    of, by_chance = (iou_matrix, chance_iou_matrix) if kind == "iou" else (overlap_matrix, chance_overlap_matrix)
    value, chance = of(regions), by_chance(regions)
    rows = [(a, b, value.loc[a, b], chance.loc[a, b]) for a in regions for b in regions]
    return pd.DataFrame(rows, columns=["row", "column", "value", "chance"])


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


def differences(
    examples_by_run: Mapping[str, Examples], baseline: str, metrics: Sequence[str], positive: int
) -> pd.DataFrame:
    """Each run less the baseline on the examples that both were scored on, with paired intervals.

    run, metric, value, low, high, n; for accuracy also McNemar's exact p and the examples that one of the two
    alone gets right. Runs that share the same examples with the baseline are resampled together.
    """
    groups: dict[tuple[int, ...], list[str]] = {}
    for key, other in examples_by_run.items():
        if key != baseline:
            groups.setdefault(tuple(np.flatnonzero(np.isin(examples_by_run[baseline].ids, other.ids))), []).append(key)
    rows = [
        row
        for place, keys in groups.items()
        if place
        for row in _paired(examples_by_run, baseline, np.array(place), keys, metrics, positive)
    ]
    columns = ["run", "metric", "value", "low", "high", "n", "p", "only_run_right", "only_baseline_right"]
    frame = pd.DataFrame(rows, columns=columns).astype({"value": "float64", "low": "float64", "high": "float64"})
    counts = {name: "Int64" for name in ("n", "only_run_right", "only_baseline_right")}
    return frame.astype({**counts, "p": "float64"}).sort_values("run", kind="stable", ignore_index=True)


def _paired(
    examples_by_run: Mapping[str, Examples],
    baseline: str,
    place: np.ndarray,
    keys: Sequence[str],
    metrics: Sequence[str],
    positive: int,
) -> list[dict[str, Any]]:
    """The rows of runs whose common examples with the baseline stand at `place` among the baseline's."""
    own = examples_by_run[baseline]
    ids, labels, logits = own.ids[place], own.labels[place], own.logits[place]
    others = [examples_by_run[key].logits[np.isin(examples_by_run[key].ids, ids)] for key in keys]
    rows = []
    for key, other, row in zip(
        keys, others, paired_differences(logits, others, labels, metrics, positive=positive), strict=True
    ):
        test = mcnemar(other, logits, labels)
        for metric, interval in row.items():
            mcnemar_row = {"p": test.p, "only_run_right": test.n10, "only_baseline_right": test.n01}
            rows.append(
                {"run": key, "metric": metric, **interval._asdict(), "n": len(ids)}
                | (mcnemar_row if metric == "accuracy" else {})
            )
    return rows


def bins(examples_by_run: Mapping[str, Examples]) -> pd.DataFrame:
    """The reliability tables of the runs, each under its letter in the column `state`."""
    parts = [
        reliability(one.logits, one.labels, BINS).assign(state=key)
        for key, one in examples_by_run.items()
        if len(one.ids)
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))


def spec_differences(runs: Sequence[Side], baseline: Side) -> pd.DataFrame:
    """One row a field in which the specs differ, one column a run; what differs from the baseline begins with ≠."""
    asked = {side.key: _fields(side.run.spec) for side in runs}
    usual = _fields(RunSpec(base="-", finetuned="-", task="-"))
    rows = []
    for field in dict.fromkeys(name for fields in asked.values() for name in fields):
        given = {key: fields.get(field) for key, fields in asked.items()}
        if len(set(given.values())) > 1:
            own = given[baseline.key]
            values = {
                key: (DIFFERS if value != own else "") + _written(value, field, usual) for key, value in given.items()
            }
            rows.append({"field": field, **values})
    return pd.DataFrame(rows, columns=["field", *asked])


def _fields(spec: RunSpec) -> dict[str, str | None]:
    """The spec's fields as texts, its options each on its own; None where nothing was given."""
    values = spec.model_dump(mode="json")
    options = {f"option {name}": value for name, value in values.pop("options").items()}
    return {name: _text(value) for name, value in {**values, **options}.items()}


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)


def _written(value: str | None, field: str, usual: Mapping[str, str | None]) -> str:
    is_default = value == usual.get(field) and field not in WITHOUT_DEFAULT
    return (NOT_GIVEN if value is None else value) + (DEFAULT if is_default else "")
