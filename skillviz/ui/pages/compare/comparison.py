"""Several runs side by side: names, scores, curves, regions and specs as tables."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from skillviz.analysis.answers import Answers, answers_of_state
from skillviz.analysis.necessity import areas as necessity_areas
from skillviz.analysis.necessity import given_and_cost, restored_and_left, without_region
from skillviz.analysis.variants import differing
from skillviz.core import formats
from skillviz.core.calibration import reliability
from skillviz.core.calibration_error import BINS
from skillviz.core.metrics import panels
from skillviz.core.overlap import iou_matrix, matched_chance, overlap_matrix
from skillviz.core.region import Region
from skillviz.plots.calibration import COLUMNS
from skillviz.plots.compare import run_styles
from skillviz.plots.theme import Style, localizer_style, state_style
from skillviz.runs.record import Estimate, RunRecord
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.show.entries import (
    DEFAULTS,
    Entry,
    folder_labels,
    headline_split,
    pair_labels,
    repetition_words,
    setting_labels,
)
from skillviz.tasks.readable_names import readable_name

FEWEST, MOST = 2, 6
UNSET, DEFAULT, DIFFERS = "not given", " (default)", "≠ "
RUN, FINETUNED = "run", "fine-tuned"
WITHOUT_DEFAULT = ("base", "finetuned", "task")


@dataclass(frozen=True)
class Side:
    """One of the compared runs; `name`, its key in every table, is its localizer and its distinguishing settings."""

    name: str
    entry: Entry
    run: Run

    @property
    def record(self) -> RunRecord:
        """The run's record."""
        return self.run.record


def sides(entries: Sequence[Entry], runs: Sequence[Run]) -> tuple[Side, ...]:
    """The runs with their names, in the given order."""
    return tuple(map(Side, short_names(entries), entries, runs))


def short_names(entries: Sequence[Entry]) -> list[str]:
    """Short names: `stagewise`, with the pair, size, seed and settings that differ between the entries.

    Settings that are not the default are always named. Repetitions of a run get distinguishing words."""
    pairs, names = pair_labels(entries), []
    folders = folder_labels(entries)
    parts = [
        {"pair": pairs[entry.pair], "share": formats.share(entry.share), "seed": f"seed {entry.seed}",
         "folder": ", ".join(folders[entry.id])}
        for entry in entries
    ]  # fmt: skip
    fields = differing(parts)
    different = differing([dict(entry.settings) for entry in entries])
    for place, entry in enumerate(entries):
        words = [localizer_style(entry.localizer).title, *(values[place] for values in fields.values())]
        settings = [name for name, value in entry.settings if name in different or value != DEFAULTS[name]]
        names.append(", ".join([*words, *setting_labels(entry, settings)]))
    more = repetition_words(names, entries)
    return [", ".join([name, *words]) for name, words in zip(names, more, strict=True)]


def unlike(side: Side, baseline: Side) -> str:
    """The reason why there is no paired difference to the baseline, as a clause; empty if there is one."""
    if side.name == baseline.name:
        return ""
    one, other = side.record.task, baseline.record.task
    if one is None or other is None:
        return "its run does not say what it was scored on"
    if one.name != other.name or one.labels != other.labels:
        return f"it was scored on another task ({readable_name(one.name)}, not {readable_name(other.name)})"
    if not (one.fingerprint and other.fingerprint):
        return "its run does not say which data it was scored on"
    if one.fingerprint != other.fingerprint:
        return f"its {readable_name(one.name)} data are not the baseline's (their sha256 differ)"
    if headline_split(side.record) != headline_split(baseline.record):
        return "the two were scored on different splits"
    return ""


def metrics_of(baseline: Side) -> tuple[str, ...]:
    """The compared metrics: the task's own and its companions."""
    return tuple(panels(baseline.record.metric))


def values(runs: Sequence[Side], state: str, metrics: Sequence[str]) -> pd.DataFrame:
    """run, metric, value, debiased, low, high of one state, as the runs stored them; beside grafts, fine-tuned too.

    A fine-tuned model that several runs share has one row.
    """
    rows = [row for side in runs for row in _rows(side.name, side, state, metrics)]
    if state == "grafted":
        rows += [row for name, side in finetuned(runs).items() for row in _rows(name, side, "finetuned", metrics)]
    frame = pd.DataFrame(rows, columns=["run", "metric", "value", "debiased", "low", "high"])
    return frame.astype({name: "float64" for name in ("value", "debiased", "low", "high")})


def finetuned(runs: Sequence[Side]) -> dict[str, Side]:
    """One run per fine-tuned model and data set, named `fine-tuned` or, if there are several, `fine-tuned, cr`."""
    first: dict[tuple[str, ...], Side] = {}
    for side in runs:
        first.setdefault(side.entry.pair, side)
    if len(first) == 1:
        return {FINETUNED: runs[0]}
    pairs = pair_labels([side.entry for side in runs])
    return {f"{FINETUNED}, {pairs[pair]}": side for pair, side in first.items()}


def _rows(name: str, side: Side, state: str, metrics: Sequence[str]) -> list[dict[str, Any]]:
    scores = side.record.metrics.get(headline_split(side.record))
    estimates = scores.states.get(state, {}) if scores else {}
    return [{"run": name, "metric": m, **estimates[m].columns()} for m in metrics if m in estimates]


def styles(sides: Sequence[Side], finetuned: Sequence[str] = ()) -> dict[str, Style]:
    """The color and marks of each run, and of the fine-tuned models with these names."""
    style = state_style("finetuned")
    others = {name: Style(name, style.color, style.symbol, style.dash) for name in finetuned}
    return run_styles([(side.name, side.entry.localizer) for side in sides]) | others


def curves(runs: Sequence[Side], tables: Mapping[str, pd.DataFrame], split: str) -> pd.DataFrame:
    """The runs' curves on a split as one table; the column `localizer` has the run's name."""
    parts = [tables[side.name].assign(localizer=side.name, dataset="") for side in runs]
    whole = pd.concat(parts, ignore_index=True)
    return whole[whole["split"] == split]


def areas(runs: Sequence[Side], split: str) -> pd.DataFrame:
    """The areas under both curves by size of each run: index (run, given or cost), columns of `necessity.areas`."""
    of_runs = dict[tuple[str, str], pd.DataFrame]()
    for side in runs:
        curve = side.run.curve()
        points = restored_and_left(curve[curve["split"] == split], without_region(side.run, split))
        of_runs |= {(side.name, name): rows for name, rows in given_and_cost(points).items()}
    return necessity_areas(of_runs)


def shares(regions: Mapping[str, Region], kind: str) -> pd.DataFrame:
    """row, column, value, chance, chance_low, chance_high of every two regions; `kind` is `iou` or `overlap`."""
    value = (iou_matrix if kind == "iou" else overlap_matrix)(regions)
    rows = [
        {"row": a, "column": b, "value": value.loc[a, b], **matched_chance([(one, two)], kind).columns()}
        for (a, one), (b, two) in itertools.product(regions.items(), repeat=2)
    ]
    return pd.DataFrame(rows)


def answers(run: Run, predictions: pd.DataFrame, state: str) -> Answers:
    """One state's answers on the run's headline split."""
    return answers_of_state(predictions, headline_split(run.record), run.labels, state)


def calibration_errors(sides: Sequence[Side], state: str) -> dict[str, Estimate]:
    """The ECE of one state by the run's name, for runs that have it."""
    states = {side.name: side.record.metrics[headline_split(side.record)].states.get(state, {}) for side in sides}
    return {name: metrics["ece"] for name, metrics in states.items() if "ece" in metrics}


def bins(answers_by_run: Mapping[str, Answers]) -> pd.DataFrame:
    """The runs' reliability tables as one; the column `state` has the run's name."""
    parts = [
        reliability(one.logits, one.labels, BINS).assign(state=name)
        for name, one in answers_by_run.items()
        if len(one.ids)
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))


def spec_differences(runs: Sequence[Side], baseline: Side) -> pd.DataFrame:
    """The runs' ids, and one row per field in which their specs differ; one column per run.

    Values that differ from the baseline's begin with ≠.
    """
    defaults = _fields(RunSpec(base="-", finetuned="-", task="-"))
    rows: list[dict[str, str]] = [{"field": RUN, **{side.name: side.run.id for side in runs}}]
    for field, texts in differing([_fields(side.run.spec) for side in runs]).items():
        by_run = {side.name: value for side, value in zip(runs, texts, strict=True)}
        cells = {
            name: f"{DIFFERS if value != by_run[baseline.name] else ''}{UNSET if value is None else value}"
            f"{DEFAULT if value == defaults.get(field) and field not in WITHOUT_DEFAULT else ''}"
            for name, value in by_run.items()
        }
        rows.append({"field": field, **cells})
    return pd.DataFrame(rows, columns=["field", *(side.name for side in runs)])


def _fields(spec: RunSpec) -> dict[str, str | None]:
    """The spec's fields as texts, with one field per option; None if there is no value."""
    values = spec.model_dump(mode="json")
    options = {f"option {name}": value for name, value in values.pop("options").items()}
    return {name: _field_text(value) for name, value in {**values, **options}.items()}


def _field_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)
