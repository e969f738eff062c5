"""The table `recovered`: the smallest region that keeps a share of the fine-tuning gain, and its graft's scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.differences import NO_INTERVAL, Side, difference
from skillviz.analysis.observations import TEST, Observation, sides
from skillviz.analysis.seeds import Resampled, is_calibration, mean_of, mean_over_seeds, resampled_tests
from skillviz.analysis.tables import check
from skillviz.core.intervals import relative_gain
from skillviz.core.metrics import metric_row
from skillviz.models.finetune.recipes import RECIPES

VALIDATION = "validation"
GAIN_SHARE = 0.95
ROUNDING = 1e-9
TUNED = tuple(dict.fromkeys(row.method for row in RECIPES.values() if not row.needs_region))
"""Methods of models that can be grafted."""
GRAFTS = ("graft", "graft_movement", "graft_random")
ESTIMATE = ("value", "debiased", "low", "high")


def recovered(
    observations: Sequence[Observation], share: float = GAIN_SHARE, resampled: Resampled | None = None
) -> pd.DataFrame:
    """One row per pair, task and localizer, for the smallest of its sizes whose mean metric recovers `share` of the
    gain.

    Sizes are chosen on validation, numbers are from the test set. The fine-tuned model was itself chosen on validation,
    so its gain there is too high: if no size reaches it on validation, the smallest that does on test is taken, and
    `reached_on` says so. If none does there either, the row has the largest size, `reached` is False and `reached_on`
    empty. If fine-tuning gains nothing on validation, or nothing beyond chance on test, there is no row.
    """
    scored = [one for one in observations if one.task == one.id_task]
    drawn = resampled or resampled_tests(scored)
    rows = []
    for group in _pairs(scored):
        if not _has_row(group, drawn):
            continue
        gains = {split: _gains(group, split, drawn) for split in (VALIDATION, TEST)}
        reached = {s: side for s, of in gains.items() for _, side, gain in reversed(of) if gain >= share - ROUNDING}
        where = next((split for split in (VALIDATION, TEST) if split in reached), "")
        rows.append(_row(reached.get(where, gains[VALIDATION][-1][1]), group, where, share, drawn))
    return check(pd.DataFrame(rows), "recovered")


def without_gain(observations: Sequence[Observation], resampled: Resampled | None = None) -> list[str]:
    """The sentence that names the models without a row in `recovered` because they have no gain; empty if there are
    none.

    A model whose base was not scored is not included.
    """
    scored = [one for one in observations if one.task == one.id_task]
    drawn = resampled or resampled_tests(scored)
    groups = _pairs(scored)
    lost = {_model(group[0]) for group in groups if _has_ends(group) and not _has_row(group, drawn)}
    if not lost:
        return []
    bases, models = ({_model(group[0])[i] for group in groups} for i in (0, slice(1, 5)))
    names = [_called(model, len(bases) > 1, len(models) > 1) for model in sorted(lost)]
    return [f"Fine-tuning gains nothing beyond chance on {'; '.join(names)}: there is no gain to recover."]


def _model(one: Observation) -> tuple[str, ...]:
    return one.base, *one.training, one.setting, one.shown_readout, one.id_task


def _called(model: tuple[str, ...], by_base: bool, by_training: bool) -> str:
    """The task, with the details that distinguish its model from others of the study."""
    base, *training, task = model
    more = [*(filter(None, training) if by_training else []), *([f"on {base}"] if by_base else [])]
    return f"{task} ({', '.join(more)})" if more else task


def _has_ends(group: Sequence[Observation]) -> bool:
    """True if base and fine-tuned model were both scored."""
    scored = {one.method for one in group if np.isfinite(one.values.get(group[0].note.metric, np.nan))}
    return "pretrained" in scored and bool(scored & set(TUNED))


def _has_row(group: Sequence[Observation], drawn: Resampled) -> bool:
    """True if the table has a row for this group: the model gains on validation, and beyond chance on test."""
    return bool(_gains(group, VALIDATION, drawn)) and _gains_on_test(group, drawn)


def _pairs(observations: Sequence[Observation]) -> list[list[Observation]]:
    """The observations of one pair, task and localizer, including the base and fine-tuned model, and both splits."""
    grafts: dict[tuple[str, ...], list[Observation]] = {}
    for one in observations:
        if one.method in GRAFTS:
            grafts.setdefault((*_model(one), *one.search), []).append(one)
    model = attrgetter("base", "recipe", "variant", "setting", "id_task", "readout")
    others = [one for one in observations if one.method not in (*GRAFTS, "complement")]
    return [[*group, *(one for one in others if model(one) == model(group[0]))] for group in grafts.values()]


def _gains(group: Sequence[Observation], split: str, drawn: Resampled) -> list[tuple[float, Side, float]]:
    """Size, the graft's test observations, and the share of the split's gain that it keeps; smallest size first."""
    metric = group[0].note.metric
    checked = [one for one in group if one.split == split]
    by_method = {name: [one for one in checked if one.method == name] for name in ("pretrained", *TUNED)}
    ends = {name: _mean(of_method, metric, drawn) for name, of_method in by_method.items()}
    merit = metric_row(metric).merit
    tuned = merit(next((ends[method] for method in TUNED if np.isfinite(ends[method])), np.nan))
    pretrained = merit(ends["pretrained"])
    if not tuned > pretrained:
        return []
    tested = {_key(side): side for side in sides(one for one in group if one.split == TEST and one.method in GRAFTS)}
    gains = []
    for side in sides(one for one in checked if one.method in GRAFTS):
        if _key(side) in tested:
            gain = float(relative_gain(merit(_mean(side, metric, drawn)), pretrained, tuned))
            gains.append((mean_of(one.size for one in side), tested[_key(side)], gain))
    return sorted(gains, key=lambda row: row[0])


def _gains_on_test(group: Sequence[Observation], drawn: Resampled) -> bool:
    """True if the fine-tuned model is better than the base on test beyond chance, by the paired interval."""
    tested = [one for one in group if one.split == TEST]
    tuned, base = ([one for one in tested if one.method in of] for of in (TUNED, ("pretrained",)))
    metric = metric_row(group[0].note.metric)
    gain = difference(tuned, base, metric.name, drawn) if tuned and base else None
    return gain is None or not metric.sign * gain["low" if metric.sign > 0 else "high"] <= 0


def _key(side: Side) -> tuple[str, ...]:
    return *side[0].search, side[0].requested_size


def _mean(side: Sequence[Observation], metric: str, drawn: Resampled) -> float:
    return mean_over_seeds(drawn.side(side, metric), metric).value


def _row(side: Side, group: Sequence[Observation], reached_on: str, share: float, drawn: Resampled) -> dict[str, Any]:
    one, metric = side[0], side[0].note.metric
    tested = [o for o in group if o.split == TEST]
    tuned = [o for o in tested if o.method in TUNED]
    scaled = [o for o in tested if o.method == "ft_scaled"]
    row: dict[str, Any] = {
        "id_task": one.id_task, "setting": one.setting, "readout": one.shown_readout, "recipe": one.recipe,
        "variant": one.variant, "localizer": one.localizer, "search_variant": one.search_variant,
        "gain_share": share, "size": mean_of(o.size for o in side),
        "share": mean_of(o.share for o in side), "reached": bool(reached_on), "reached_on": reached_on,
        "metric": metric, "n": one.n, "seeds": mean_over_seeds(drawn.side(side, metric), metric).seeds,
    }  # fmt: skip
    for of_name, of_side, of_metric in (
        ("value", side, metric), ("value_ft", tuned, metric), ("gain", side, "recovered"),
        ("accuracy", side, "accuracy"), ("ece", side, "ece"), ("ece_ft", tuned, "ece"),
        ("ece_ft_scaled", scaled, "ece"), ("agreement", side, "agreement"),
    ):  # fmt: skip
        over = mean_over_seeds(drawn.side(of_side, of_metric), of_metric)
        row |= _columns(of_name, over._asdict(), of_metric)
    row["over"] = NO_INTERVAL
    for of_name, rival in (("ece_less_ft", tuned), ("ece_less_scaled", scaled)):
        less = difference(side, rival, "ece", drawn) if rival else dict.fromkeys(ESTIMATE, np.nan)
        row |= _columns(of_name, less, "ece") | {"over": less.get("over") or row["over"]}
    return row


def _columns(name: str, estimate: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """An estimate as the columns name, name_low and name_high; for calibration also name_debiased."""
    shown = [part for part in ESTIMATE if part != "debiased" or is_calibration(metric)]
    return {name if part == "value" else f"{name}_{part}": estimate[part] for part in shown}
