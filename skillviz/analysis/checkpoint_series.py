"""The checkpoints of one fine-tuning as a series: scores, calibration, size needed, overlap with the last region."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.differences import PAIRED, Side, difference
from skillviz.analysis.observations import TEST, Observation, of_run, once, sides
from skillviz.analysis.recovered import VALIDATION, recovered
from skillviz.analysis.seeds import Resampled, difference_of_differences, mean_of, mean_over_seeds, over_seeds
from skillviz.analysis.tables import CHANCE, TABLES, check
from skillviz.core.overlap import iou_matrix, matched_chance, overlap_matrix
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec

SCORED = {
    "finetuned": ("finetuned", ""), "grafted": ("grafted", ""), "ece": ("finetuned", "ece"),
    "grafted_ece": ("grafted", "ece"),
}  # fmt: skip
"""State and metric of four numbers of a checkpoint; an empty metric is the task's own."""
COLUMNS = (
    "step", "run_id", "split", *(f"{name}{end}" for name in SCORED for end in ("", "_debiased", "_low", "_high")),
    "size", "size_needed", "recovered", "low", "high", "held_of_last", "iou", "chance_iou", "chance_low", "chance_high",
)  # fmt: skip


def checkpoint_series(runs: Mapping[int, Run]) -> pd.DataFrame:
    """One row per checkpoint, by training step, from one run of each; regions are compared with the last step's.

    `finetuned` and `grafted` are the task's metric at the checkpoint and at its graft of the main `size`, `ece` and
    `grafted_ece` their plug-in calibration errors; each has its interval, which for a calibration error is about
    `_debiased`. `size_needed`, `recovered`, `low` and `high` come from the function `size_needed`. `held_of_last` is
    the share of the last region that this one holds, `iou` their intersection over union, and `chance_iou` the same for
    random regions with equally many entries in each tensor, with the range of 95% of them. Raises BadInput without
    runs.
    """
    if not runs:
        raise BadInput("a series of checkpoints needs at least one run.")
    steps = sorted(runs)
    regions = {str(step): runs[step].region() for step in steps}
    last = str(steps[-1])
    held, iou = overlap_matrix(regions), iou_matrix(regions)
    rows = []
    for step in steps:
        run, name = runs[step], str(step)
        split = "test" if "test" in run.record.metrics else "validation"
        states = run.record.metrics[split].states
        numbers: dict[str, float | None] = {}
        for column, (state, metric) in SCORED.items():
            one = states[state].get(metric or run.record.metric)  # a generated text has no calibration error
            ends = one.columns() if one else {}
            numbers |= {column if end == "value" else f"{column}_{end}": number for end, number in ends.items()}
        rows.append(
            {
                "step": step, "run_id": run.id, "split": split, **numbers, "size": run.record.size,
                **size_needed(run), "held_of_last": held.loc[name, last], "iou": iou.loc[name, last],
                **_chance(regions, name, last),
            }
        )  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _chance(regions: Mapping[str, Region], name: str, last: str) -> dict[str, float]:
    """chance_iou, chance_low and chance_high; missing for the last region itself."""
    by_chance = matched_chance([] if name == last else [(regions[name], regions[last])], "iou")
    return dict(zip(COLUMNS[-3:], by_chance, strict=True))


def size_needed(run: Run) -> dict[str, float]:
    """The smallest of a run's sizes whose graft recovers GAIN_SHARE of the gain, and the share recovered on the test
    set with its interval: a row of the table `recovered`.

    If no size does, `size_needed` is NaN and the share is the largest size's. All are NaN if there is no gain.
    """
    (row, *_) = [*recovered([one for one in of_run(run) if one.task == one.id_task]).to_dict("records"), {}]
    names = {"recovered": "gain", "low": "gain_low", "high": "gain_high"}
    found = {name: float(row.get(column, np.nan)) for name, column in names.items()}
    return {"size_needed": float(row["size"]) if row.get("reached") else np.nan, **found}


NEEDED, LEAD, SHARED, ALIKE, HELD = "needed", "lead", "shared", "alike", "held"
GAP, GAP_CHANGE = "gap", "gap_change"
STATES = {"pretrained": "pretrained", "ft": "finetuned", "graft": "grafted", "graft_movement": "grafted"}
"""The scores in a series: method -> its name in the table."""
MOVEMENT = "movement"
SAME = ("base", "task", "readout", "k_shot", "data_seed", "max_train", "max_validation", "max_test", "dtype")
"""Fields of a spec that are equal in all runs of one series."""


def checkpoint_points(runs: Mapping[int, Sequence[Run]]) -> pd.DataFrame:
    """The table `checkpoints` of one fine-tuning: by step, the runs on its checkpoint, of any localizers and seeds.

    Scores are at each run's main size, on the test set, or on validation if there is no test set. `needed` is the share
    of the parameters whose graft recovers GAIN_SHARE of the checkpoint's gain, missing if no size does. `gap` is a
    search's graft minus its model, and `gap_change` is `gap` minus its value at the first checkpoint, both paired or
    without an interval. `shared` is the share of the last checkpoint's region, for the same localizer and seed, that
    this one holds too. Two columns show why a search and top movement are level early or late: `alike`, the share of a
    search's region that is also in top movement's region at the same checkpoint, and `held`, the share of the squared
    movement within a region.
    """
    rows: list[dict[str, Any]] = []
    last = runs[max(runs)] if runs else ()
    observed = {step: once(one for run in runs[step] for one in of_run(run)) for step in sorted(runs)}
    scored = {step: [one for one in of if one.task == one.id_task] for step, of in observed.items()}
    split = TEST if any(one.split == TEST for of in scored.values() for one in of) else VALIDATION
    drawn = Resampled([one for of in scored.values() for one in of if one.split == split])
    first: list[Side] = []
    for step, of in scored.items():
        main = {(run.spec.localizer, run.record.size) for run in runs[step]}
        shown: list[Side] = [
            side
            for side in sides(one for one in of if one.split == split and one.method in STATES)
            if not side[0].localizer or (side[0].localizer, side[0].size) in main
        ]
        first = first or shown
        parts = (
            _scores(shown, drawn), _leads(shown, drawn), _gaps(shown, first, drawn), _needed(of, drawn),
            _shared(runs[step], last), _alike(runs[step]), _held(runs[step]),
        )  # fmt: skip
        rows += [{"step": step, **row} for part in parts for row in part]
    frame = pd.DataFrame(rows)
    for column in TABLES["checkpoints"].columns:
        if column.name not in frame:
            frame[column.name] = np.nan
    return check(frame, "checkpoints")


def series_of(run: Run, runs: Iterable[Run]) -> dict[int, list[Run]]:
    """The runs on the models of one fine-tuning by training step: `<folder>/checkpoint-<step>`, and the folder's own
    model.

    They are runs of the same search with any seed, at the same sizes, and of top movement, which may have more sizes
    after the main one, on the same data; empty if there is no second checkpoint.
    """
    place = _checkpoint(run)
    if place is None:
        return {}
    series: dict[int, list[Run]] = {}
    for other in runs:
        at = _checkpoint(other)
        searches = (other.spec.localizer, other.spec.search_fields())
        is_like = searches in ((run.spec.localizer, run.spec.search_fields()), (MOVEMENT, {}))
        if at is None or not is_like or other.spec.gain != run.spec.gain:
            continue
        is_alike = all(getattr(other.spec, name) == getattr(run.spec, name) for name in SAME)
        if at[0] == place[0] and is_alike and _sizes_agree(run.spec, other.spec):
            known = [(one.spec.localizer, one.spec.seed) for one in series.get(at[1], [])]
            if (other.spec.localizer, other.spec.seed) not in known:  # the newest is listed first
                series.setdefault(at[1], []).append(other)
    return series if len(series) > 1 else {}


def _sizes_agree(one: RunSpec, other: RunSpec) -> bool:
    """True if the sizes are the same; for two different localizers, only the main size must match."""
    return one.sizes[:1] == other.sizes[:1] and (one.sizes == other.sizes or one.localizer != other.localizer)


def _checkpoint(run: Run) -> tuple[str, int] | None:
    """The folder of the fine-tuning of a run's model, and the model's step; None if the step is unknown.

    The step is the number in `<folder>/checkpoint-<step>`, or the total for the folder's own model.
    """
    place = run.spec.finetuned.rstrip("/")
    folder, _, name = place.rpartition("/")
    if number := re.fullmatch(r"checkpoint-(\d+)", name):
        return folder, int(number[1])
    steps = run.record.finetuned.steps if run.record.finetuned else None
    return (place, steps) if steps else None


def _scores(shown: Sequence[Side], drawn: Resampled) -> Iterator[dict[str, Any]]:
    """The task's metric and the calibration error of every state."""
    for side in shown:
        for metric in (side[0].note.metric, "ece"):
            over = mean_over_seeds(drawn.side(side, metric), metric)._asdict()
            yield {**_place(side), "what": STATES[side[0].method], "metric": metric, **_estimate(over)}


def _leads(shown: Sequence[Side], drawn: Resampled) -> Iterator[dict[str, Any]]:
    """The task's metric of each search's graft minus top movement's, on the same examples."""
    of_movement = [side for side in shown if side[0].localizer == MOVEMENT]
    for side in shown:
        if side[0].localizer not in ("", MOVEMENT) and of_movement:
            metric = side[0].note.metric
            over = difference(side, of_movement[0], metric, drawn)
            yield {**_place(side), "what": LEAD, "metric": metric, **_estimate(over)}


def _gaps(shown: Sequence[Side], first: Sequence[Side], drawn: Resampled) -> Iterator[dict[str, Any]]:
    """The task's metric of each search's graft minus its model's, and the change of this gap since the first step."""
    before = dict(_beside_model(first))
    for localizer, (graft, model) in _beside_model(shown):
        metric = graft[0].note.metric
        row = {**_place(graft), "metric": metric}
        less = difference(graft, model, metric, drawn)
        ends = {} if less["over"] == PAIRED else {"low": np.nan, "high": np.nan}
        yield {**row, "what": GAP, **_estimate(less), **ends}
        if localizer in before and before[localizer][0] is not graft:
            now, then = ((drawn.side(a, metric), drawn.side(b, metric)) for a, b in ((graft, model), before[localizer]))
            yield {**row, "what": GAP_CHANGE, **_estimate(difference_of_differences(now, then, metric)._asdict())}


def _beside_model(shown: Sequence[Side]) -> Iterator[tuple[str, tuple[Side, Side]]]:
    """Each search, with its graft and the model of the graft."""
    models = [side for side in shown if STATES[side[0].method] == "finetuned"]
    for side in shown:
        if side[0].localizer not in ("", MOVEMENT) and models:
            yield side[0].localizer, (side, models[0])


def _needed(scored: Sequence[Observation], drawn: Resampled) -> Iterator[dict[str, Any]]:
    """The size at which each localizer recovers enough of the gain."""
    for row in recovered(scored, resampled=drawn).to_dict("records"):
        names = ("id_task", "localizer", "size", "share", "metric", "seeds", "n")
        value = row["share"] if row["reached"] else np.nan
        yield {**{name: row[name] for name in names}, "what": NEEDED, "value": value, "low": np.nan, "high": np.nan}


def _shared(runs: Sequence[Run], last: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """The share of the last checkpoint's regions that each localizer's regions hold, seed by seed."""
    lasting = {(run.spec.localizer, run.spec.seed): run for run in last}
    for localizer, of in _by_localizer(runs).items():
        pairs = [(run, lasting[localizer, run.spec.seed]) for run in of if (localizer, run.spec.seed) in lasting]
        if pairs:
            yield {**_of_runs([run for run, _ in pairs]), "what": SHARED, **_overlaps(pairs)}


def _alike(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """The share of top movement's regions, at the same checkpoint and size, that each search's regions hold."""
    by_size = {run.record.size: run for run in runs if run.spec.localizer == MOVEMENT}
    for localizer, of in _by_localizer(runs).items():
        pairs = [(run, by_size[run.record.size]) for run in of if run.record.size in by_size]
        if pairs and localizer != MOVEMENT:
            yield {**_of_runs([run for run, _ in pairs]), "what": ALIKE, **_overlaps(pairs)}


def _held(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """The share of the squared movement that each localizer's regions hold."""
    for of in _by_localizer(runs).values():
        shares = [movement_held(run) for run in of]
        if np.isfinite(shares).all():
            yield {**_of_runs(of), "what": HELD, **_share_over_seeds(shares)}


def movement_held(run: Run) -> float:
    """The share of the squared movement of a run's model that is in its region; NaN if nothing moved."""
    inside, every = (run.layers()[["movement_l2_selected", "movement_l2"]].to_numpy(float) ** 2).sum(axis=0)
    return float(inside / every) if every > 0 else np.nan


def _by_localizer(runs: Sequence[Run]) -> Mapping[str, Sequence[Run]]:
    names = dict.fromkeys(run.spec.localizer for run in runs)
    return {name: [run for run in runs if run.spec.localizer == name] for name in names}


def _of_runs(runs: Sequence[Run]) -> dict[str, Any]:
    first, size = runs[0].record, mean_of(float(run.record.size or 0) for run in runs)
    share = size / first.d if first.d else np.nan
    return {"id_task": first.task_name, "localizer": first.spec.localizer, "size": size, "share": share, "n": 0}


def _overlaps(pairs: Sequence[tuple[Run, Run]]) -> dict[str, Any]:
    """The mean share of the second region of each pair that the first holds, with its value by chance."""
    regions = [(run.region(), other.region()) for run, other in pairs]
    values = [float(overlap_matrix({"a": a, "b": b}).to_numpy()[0, 1]) for a, b in regions]
    by_chance = dict(zip((column.name for column in CHANCE), matched_chance(regions), strict=True))
    return {**_share_over_seeds(values), **by_chance}


def _share_over_seeds(shares: Sequence[float]) -> dict[str, Any]:
    over = over_seeds(shares, "overlap")
    return {"metric": "overlap", "value": over.value, "low": over.low, "high": over.high, "seeds": over.n}


def _place(side: Side) -> dict[str, Any]:
    one = side[0]
    return {
        "id_task": one.id_task, "localizer": one.localizer, "size": mean_of(o.size for o in side),
        "share": mean_of(o.share for o in side), "n": one.n,
    }  # fmt: skip


def _estimate(over: Mapping[str, Any]) -> dict[str, Any]:
    return {name: over[name] for name in ("value", "debiased", "low", "high", "seeds")}
