"""The table `recovered`: the smallest region that keeps a share of the fine-tuning gain, and how good its graft is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.intervals import relative_gain
from skillviz.studies.differences import SEEDS, Side, difference
from skillviz.studies.means import by_unit, mean_of, over_seeds, sides
from skillviz.studies.observations import Observed
from skillviz.studies.resampled import TEST, Resampled, of_test
from skillviz.studies.tables import check

VALIDATION = "validation"
GAIN_SHARE = 0.95
ROUNDING = 1e-9
GRAFTS = ("graft", "graft_movement", "graft_random")


def recovered(found: Sequence[Observed], share: float = GAIN_SHARE, resampled: Resampled | None = None) -> pd.DataFrame:
    """One row a pair, task and localizer: of its sizes the smallest whose mean metric recovers `share` of the gain.

    Sizes are chosen on validation, numbers are of the test set. The fine-tuned model was itself chosen on validation,
    which flatters it there: where no size reaches its gain on validation, the smallest that does on test is taken, and
    `reached_on` says so. Where none does there either, the largest stands there, `reached` is False and `reached_on`
    empty. Where fine-tuning gains nothing on validation, or nothing beyond chance on test, no row is made.
    """
    own = [one for one in found if one.task == one.id_task]
    drawn = resampled or of_test(own)
    rows = []
    for group in _pairs(own):
        if not _is_told(group, drawn):
            continue
        gains = {split: _gains(group, split) for split in (VALIDATION, TEST)}
        reached = {s: side for s, of in gains.items() for _, side, gain in reversed(of) if gain >= share - ROUNDING}
        where = next((split for split in (VALIDATION, TEST) if split in reached), "")
        rows.append(_row(reached.get(where, gains[VALIDATION][-1][1]), group, where, share, drawn))
    return check(pd.DataFrame(rows), "recovered")


def without_gain(found: Sequence[Observed], resampled: Resampled | None = None) -> list[str]:
    """The sentence that names the models of which `recovered` has no row, as they gain nothing; none without such.

    A model that was not scored beside its base is not judged.
    """
    own = [one for one in found if one.task == one.id_task]
    drawn = resampled or of_test(own)
    groups = _pairs(own)
    lost = {_model(group[0]) for group in groups if _has_ends(group) and not _is_told(group, drawn)}
    if not lost:
        return []
    bases, models = ({_model(group[0])[i] for group in groups} for i in (0, slice(1, 3)))
    names = [_called(model, len(bases) > 1, len(models) > 1) for model in sorted(lost)]
    return [f"Fine-tuning gains nothing beyond chance on {'; '.join(names)}: no share of a gain is told there."]


def _model(one: Observed) -> tuple[str, str, str, str]:
    return one.base, one.recipe, one.setting, one.id_task


def _called(model: tuple[str, str, str, str], by_base: bool, by_recipe: bool) -> str:
    """The task, and what tells its model from others of the study."""
    base, recipe, setting, task = model
    more = [*([f"{recipe}, {setting}"] if by_recipe else []), *([f"on {base}"] if by_base else [])]
    return f"{task} ({', '.join(more)})" if more else task


def _has_ends(group: Sequence[Observed]) -> bool:
    """Whether base and fine-tuned model were both scored."""
    held = {one.method for one in group if np.isfinite(one.values.get(group[0].note.metric, np.nan))}
    return "pretrained" in held and bool(held & set(TUNED))


def _is_told(group: Sequence[Observed], drawn: Resampled) -> bool:
    """Whether the table has a row of this group: the model gains on validation, and beyond chance on test."""
    return bool(_gains(group, VALIDATION)) and _gains_on_test(group, drawn)


def _pairs(found: Iterable[Observed]) -> list[list[Observed]]:
    """The observations of one pair, task and localizer, with the ends and both splits."""
    found = list(found)
    groups: dict[tuple[str, ...], list[Observed]] = {}
    for one in found:
        if one.method in GRAFTS:
            key = (one.base, one.recipe, one.setting, one.id_task, one.localizer)
            groups.setdefault(key, []).append(one)
    return [
        [*own, *(one for one in found if one.method not in (*GRAFTS, "complement") and _fits(one, own[0]))]
        for own in groups.values()
    ]


def _fits(one: Observed, graft: Observed) -> bool:
    names = ("base", "recipe", "setting", "id_task", "readout")
    return all(getattr(one, name) == getattr(graft, name) for name in names)


def _gains(group: Sequence[Observed], split: str) -> list[tuple[float, Side, float]]:
    """Size, the graft's test observations, and the share of the split's gain that it keeps; smallest size first."""
    metric = group[0].note.metric
    checked = [one for one in group if one.split == split]
    ends = {
        method: _mean([one for one in checked if one.method == method], metric) for method in ("pretrained", *TUNED)
    }
    tuned = next((ends[method] for method in TUNED if np.isfinite(ends[method])), np.nan)
    if not tuned > ends["pretrained"]:
        return []
    tested = {_key(side): side for side in sides(one for one in group if one.split == TEST and one.method in GRAFTS)}
    found = []
    for side in sides(one for one in checked if one.method in GRAFTS):
        if _key(side) in tested:
            gain = float(relative_gain(_mean(side, metric), ends["pretrained"], tuned))
            found.append((mean_of(one.size for one in side), tested[_key(side)], gain))
    return sorted(found, key=lambda row: row[0])


def _gains_on_test(group: Sequence[Observed], drawn: Resampled) -> bool:
    """Whether the fine-tuned model is better than the base on test beyond chance, by the paired interval."""
    tested = [one for one in group if one.split == TEST]
    tuned, base = ([one for one in tested if one.method in of] for of in (TUNED, ("pretrained",)))
    found = difference(tuned, base, group[0].note.metric, drawn) if tuned and base else None
    return found is None or not found["low"] <= 0


TUNED = ("ft", "adamw", "adamw_l1", "lora", "bitfit", "multi_task")


def _key(side: Side) -> tuple[str, str]:
    return side[0].localizer, side[0].asked


def _mean(side: Sequence[Observed], metric: str) -> float:
    return over_seeds(by_unit(side, metric).values()).value


def _row(side: Side, group: Sequence[Observed], reached_on: str, share: float, drawn: Resampled) -> dict[str, Any]:
    one, metric = side[0], side[0].note.metric
    tested = [o for o in group if o.split == TEST]
    tuned = [o for o in tested if o.method in TUNED]
    scaled = [o for o in tested if o.method == "ft_scaled"]
    row: dict[str, Any] = {
        "id_task": one.id_task, "setting": one.setting, "recipe": one.recipe, "localizer": one.localizer,
        "gain_share": share, "size": mean_of(o.size for o in side),
        "share": mean_of(o.share for o in side), "reached": bool(reached_on), "reached_on": reached_on,
        "metric": metric, "n": one.n, "seeds": len(by_unit(side, metric)),
    }  # fmt: skip
    row |= _seeds(side, metric, "value") | _seeds(tuned, metric, "value_ft") | _seeds(side, "recovered", "gain")
    row |= _seeds(side, "accuracy", "accuracy") | _seeds(side, "ece", "ece") | _seeds(tuned, "ece", "ece_ft")
    row |= _seeds(scaled, "ece", "ece_ft_scaled") | _seeds(side, "agreement", "agreement")
    row["over"] = SEEDS
    for name, rival in (("ece_less_ft", tuned), ("ece_less_scaled", scaled)):
        found = difference(side, rival, "ece", drawn) if rival else None
        row |= {
            name: found["value"] if found else np.nan, f"{name}_low": found["low"] if found else np.nan,
            f"{name}_high": found["high"] if found else np.nan,
        }  # fmt: skip
        row["over"] = found["over"] if found else row["over"]
    return row


def _seeds(side: Sequence[Observed], metric: str, name: str) -> dict[str, float]:
    """The mean over seeds with its t-interval, as columns."""
    found = over_seeds(by_unit(side, metric).values(), metric)
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
