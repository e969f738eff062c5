"""Paired differences on the same examples: between a study's methods, over examples and seeds (the table
`differences`); and between stored runs and a baseline run, with McNemar's test that both are right equally often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.answers import Answers
from skillviz.analysis.observations import TEST, Observation, sides
from skillviz.analysis.seeds import (
    Resampled,
    apart,
    difference_over_seeds,
    mean_of,
    mean_over_seeds,
    resampled_tests,
)
from skillviz.analysis.tables import OVER, check
from skillviz.core.agreement import mcnemar
from skillviz.core.intervals import paired_differences
from skillviz.core.localizers.table import LOCALIZERS, has_outcome_size
from skillviz.core.metrics import METRICS, metric_names
from skillviz.models.finetune.recipes import FEW, MULTI_TASK, RECIPES

PAIRED, UNPAIRED, NO_INTERVAL = OVER
OTHER_MODELS = tuple(RECIPES[name].method for name in (*FEW, MULTI_TASK))
"""Methods that are models of their own: compared with models of another recipe."""

Side = Sequence[Observation]


def paired(
    observations: Sequence[Observation], pairs: Iterable[tuple[str, str]], resampled: Resampled | None = None
) -> pd.DataFrame:
    """One row per pair of methods (a, b) on one task, at equal size if both have a region, and metric: a - b.

    If a's size is an outcome, a is compared with the next larger region of b; if b's is, b is compared with the next
    smaller region of a, so that a does not gain from a larger region. A region of b whose rest is zero (lottery) is
    larger by nature: there a is compared with the one of b that scores best on the test set, in b's favor. If one side
    has no stored predictions at that size, both sides' own intervals are joined, and the difference is not paired.
    """
    tested = [one for one in observations if one.split == TEST]
    drawn = resampled or resampled_tests(tested)
    groups = sides(tested)
    rows = []
    for a_name, b_name in pairs:
        left = [side for side in groups if side[0].method == a_name]
        right = [side for side in groups if side[0].method == b_name]
        matched = list(_matched(left, right))
        for a, b in matched:
            training = _training(a, b, matched)
            metrics = [n for n in metric_names(a[0].note.metric) if n in a[0].values and n in b[0].values]
            rows += [{**_row(a, b, metric, drawn), **training} for metric in metrics]
    return check(pd.DataFrame(rows), "differences")


def difference(a: Side, b: Side, metric: str, drawn: Resampled) -> dict[str, Any]:
    """value, debiased, low, high, over, seeds, gained and lost of the mean of a less the mean of b."""
    left, right = drawn.side(a, metric), drawn.side(b, metric)
    examples = {one.answers.examples if one.answers is not None else "" for one in (*a, *b)}
    values = [one.values.get(metric, np.nan) for one in (*a, *b)]
    if len(examples) == 1 and "" not in examples and np.isfinite(values).all():
        over, of = difference_over_seeds(left, right, metric), PAIRED
    else:
        over, of = apart(mean_over_seeds(left, metric), mean_over_seeds(right, metric)), UNPAIRED
    fields = over._asdict()
    del fields["sd"]
    return {**fields, "over": of if np.isfinite([over.low, over.high]).all() else NO_INTERVAL}


def turned_round(rows: pd.DataFrame) -> pd.DataFrame:
    """Differences a - b turned into b - a; the columns a and b are not changed."""
    turned = {name: -rows[name] for name in ("value", "debiased") if name in rows}
    turned |= {name: rows[other] for name, other in (("gained", "lost"), ("lost", "gained")) if other in rows}
    return rows.assign(**turned, low=-rows["high"], high=-rows["low"])


def _row(a: Side, b: Side, metric: str, drawn: Resampled) -> dict[str, Any]:
    one, other = a[0], b[0]
    region = a if np.isfinite(one.size) else b
    return {
        "id_task": one.id_task, "task": one.task, "setting": one.setting, "readout": one.shown_readout,
        "localizer": region[0].localizer, "search_variant": region[0].search_variant,
        "size": mean_of(o.size for o in region), "share": mean_of(o.share for o in region),
        "a": one.method, "b": other.method, "metric": metric, **difference(a, b, metric, drawn), "n": one.n,
    }  # fmt: skip


def _training(a: Side, b: Side, matched: Sequence[tuple[Side, Side]]) -> dict[str, str]:
    """The recipe and variant of a; also the ones of b if a is compared with models of several recipes."""
    rivals = {other[0].training for one, other in matched if one is a}
    recipe_b, variant_b = b[0].training if len(rivals) > 1 else ("", "")
    return {"recipe": a[0].recipe, "variant": a[0].variant, "recipe_b": recipe_b, "variant_b": variant_b}


def _matched(left: Sequence[Side], right: Sequence[Side]) -> Iterable[tuple[Side, Side]]:
    """Pairs of sides that may be compared: from one pair and task, at one size."""
    for a in left:
        rivals = [b for b in right if _comparable(a[0], b[0])]
        for kind in dict.fromkeys((b[0].training, b[0].search) for b in rivals):
            for b in _of_size(a, [b for b in rivals if (b[0].training, b[0].search) == kind]):
                yield a, b
    # outcome-sized regions on the right: the next smaller region on the left
    for b in right:
        if _is_outcome(b) and np.isfinite(b[0].size):
            rivals = [a for a in left if _comparable(a[0], b[0]) and np.isfinite(a[0].size) and not _is_outcome(a)]
            for search in dict.fromkeys(a[0].search for a in rivals):
                by_size = sorted((a for a in rivals if a[0].search == search), key=_size)
                smaller = [a for a in by_size if _size(a) <= _size(b)]
                yield (smaller[-1] if smaller else by_size[0]), b


def _of_size(a: Side, rivals: Sequence[Side]) -> Sequence[Side]:
    """The rival of a's size; if a's size is an outcome, the next larger one. If one of them has no region, the
    rivals with stored predictions, at every size, or otherwise the first."""
    if not np.isfinite(a[0].size) or not np.isfinite(rivals[0][0].size):
        stored = [b for b in rivals if b[0].answers is not None]
        return (stored if np.isfinite(rivals[0][0].size) else stored[:1]) or rivals[:1]
    if _is_alone(rivals[0]) and not _is_alone(a):
        metric = METRICS[a[0].note.metric]
        return [max(rivals, key=lambda b: metric.sign * mean_of(one.values[metric.name] for one in b))]
    equal = [b for b in rivals if abs(_size(b) - _size(a)) < 0.5]
    if equal:
        return equal[:1]
    if not _is_outcome(a):
        return []
    larger = sorted((b for b in rivals if _size(b) >= _size(a) and not _is_outcome(b)), key=_size)
    return larger[:1]


def _size(side: Side) -> float:
    return mean_of(one.size for one in side)


def _is_outcome(side: Side) -> bool:
    return has_outcome_size(side[0].localizer)


def _is_alone(side: Side) -> bool:
    """True if everything outside the region is zero."""
    row = LOCALIZERS.get(side[0].localizer)
    return row is not None and row.rest == "zero"


def _comparable(a: Observation, b: Observation) -> bool:
    same = all(getattr(a, name) == getattr(b, name) for name in ("base", "setting", "shown_readout", "id_task", "task"))
    crossed = a.method in OTHER_MODELS or b.method in OTHER_MODELS
    complement = "complement" in (a.method, b.method) and np.isfinite(a.size) and np.isfinite(b.size)
    return same and (a.training == b.training or crossed) and not (complement and a.search != b.search)


LESS_BASELINE = ("run", "metric", "value", "debiased", "low", "high", "n", "p", "gained", "lost")


def less_baseline(
    answers_by_run: Mapping[str, Answers], baseline: str, metrics: Sequence[str], positive: int
) -> pd.DataFrame:
    """Each run minus the baseline on the examples that both were scored on, with paired intervals.

    run, metric, value, debiased, low, high, n; for accuracy also McNemar's exact p, and the examples that only the run
    (gained) and only the baseline (lost) gets right. Runs that share the same examples with the baseline are resampled
    together.
    """
    groups: dict[tuple[int, ...], list[str]] = {}
    for key, answers in answers_by_run.items():
        if key != baseline:
            shared = np.flatnonzero(np.isin(answers_by_run[baseline].ids, answers.ids))
            groups.setdefault(tuple(shared), []).append(key)
    rows = []
    for place, keys in groups.items():
        if place:
            shared_answers = answers_by_run[baseline].take(np.array(place))
            rows += _less_baseline(answers_by_run, shared_answers, keys, metrics, positive)
    frame = pd.DataFrame(rows, columns=list(LESS_BASELINE))
    counts = dict.fromkeys(("n", "gained", "lost"), "Int64")
    floats = dict.fromkeys(("value", "debiased", "low", "high", "p"), "float64")
    frame = frame.astype({**floats, **counts})
    return frame.sort_values("run", kind="stable", ignore_index=True)


def _less_baseline(
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
        p = mcnemar(of_run, baseline.logits, baseline.labels).p
        for metric, interval in by_metric.items():
            row = {"run": key, "metric": metric, **interval._asdict(), "n": len(baseline.ids)}
            rows.append(row | ({"p": p} if METRICS[metric].interval == "wilson" else {}))
    return rows
