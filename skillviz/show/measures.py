"""The tables that the pages draw: runs' own tables, filtered, binned and combined. No widgets here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from skillviz.core import calibration, selective
from skillviz.core.calibration import reliability
from skillviz.core.calibration_error import calibration_test
from skillviz.core.intervals import Interval, metric_interval
from skillviz.core.localizers.table import EXPRESSION, rest_of
from skillviz.core.metrics import METRICS, metric_names, metric_row, panels
from skillviz.core.temperature import scaled
from skillviz.plots.sparsity import COLUMNS as CURVE_COLUMNS
from skillviz.runs.metrics import SCALED, estimate
from skillviz.runs.record import Estimate, RunRecord, Scores
from skillviz.runs.run import Run
from skillviz.runs.tables import score_matrix
from skillviz.show.briefs import DEFAULTS, RunBrief, repetition_words, setting_words

GAIN = "gain"  # the setting of a run
TEMPERATURE = "temperature"  # its name in figures
CHANCE, MAJORITY = ("chance", "majority")


def logits(predictions: pd.DataFrame, state: str, split: str, labels: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Logits [n, label] and true classes [n] of one state and split, in the order in which the examples are stored.

    The order matters: with it, the same resamples give exactly the intervals that the run has stored.
    """
    of_split = predictions[predictions["split"] == split]
    rows = of_split[of_split["state"] == state].set_index("example_id")
    rows = rows.loc[of_split["example_id"].unique()] if len(rows) else rows
    return score_matrix(rows, labels), rows["label"].to_numpy()


def places(predictions: pd.DataFrame, split: str) -> dict[str, int]:
    """The row of each example of a split in the arrays of `logits`."""
    return {
        str(name): row for row, name in enumerate(predictions.loc[predictions["split"] == split, "example_id"].unique())
    }


def state_logits(
    predictions: pd.DataFrame, record: RunRecord, split: str, states: Iterable[str]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Logits of each state, and the labels; `temperature` is the fine-tuned model at the fitted temperature, left
    out if none was fitted."""
    names = record.task.labels if record.task else ()
    by_state: dict[str, np.ndarray] = {}
    labels = np.empty(0, dtype=np.int64)
    for state in states:
        source = "finetuned" if state == TEMPERATURE else state
        values, labels = logits(predictions, source, split, names)
        if state != TEMPERATURE:
            by_state[state] = values
        elif record.temperature is not None:
            by_state[state] = scaled(values, record.temperature) if len(values) else values
    return by_state, labels


def reliability_bins(logits: dict[str, np.ndarray], labels: np.ndarray, bins: int, equal_mass: bool) -> pd.DataFrame:
    """The reliability tables of all states in one table, with a column `state`."""
    parts = [reliability(z, labels, bins, equal_mass).assign(state=name) for name, z in logits.items()]
    return pd.concat(parts, ignore_index=True)


def calibration_of(
    logits: Mapping[str, np.ndarray], labels: np.ndarray, bins: int, equal_mass: bool
) -> tuple[dict[str, Estimate], dict[str, float]]:
    """Each state's calibration error with its interval, and the p-value of its test of calibration; neither of them for
    too few examples and for equal mass."""
    metric = ece_metric(equal_mass)
    errors = {name: estimate(metric_interval(z, labels, metric, bins=bins)) for name, z in logits.items()}
    tested = [name for name, error in errors.items() if error.debiased is not None]
    return errors, {name: calibration_test(logits[name], labels, bins).p_value for name in tested}


def smooth_reliability(
    logits: Mapping[str, np.ndarray], labels: np.ndarray
) -> tuple[pd.DataFrame, dict[str, Interval]]:
    """The smoothed reliability of all states in one table, with a column `state`, and the smECE of each."""
    curve_of = calibration.smooth_reliability
    errors = {name: calibration.smooth_error(z, labels) for name, z in logits.items()}
    parts = [curve_of(z, labels, errors[name].value).assign(state=name) for name, z in logits.items()]
    return pd.concat(parts, ignore_index=True), errors


def risk_coverage(logits: Mapping[str, np.ndarray], labels: np.ndarray) -> dict[str, selective.RiskCoverage]:
    """The risk–coverage curve of each state."""
    return {name: selective.risk_coverage(z, labels) for name, z in logits.items()}


def ece_metric(equal_mass: bool) -> str:
    """The name of the calibration error in bins of equal mass, or of equal width."""
    return "ece_equal_mass" if equal_mass else "ece"


def state_scores(scores: Scores) -> pd.DataFrame:
    """The metrics of each state for the comparison figure: state, metric, value, debiased, low, high."""
    rows = [
        {"state": TEMPERATURE if state == SCALED else state, "metric": metric, **one.columns()}
        for state, metrics in scores.states.items()
        for metric, one in metrics.items()
    ]
    frame = pd.DataFrame(rows, columns=["state", "metric", "value", "debiased", "low", "high"])
    return frame.astype({name: "float64" for name in ("value", "debiased", "low", "high")})


def plug_in_where_mixed(points: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The points of a figure with one kind of calibration error: if one point has no debiased value, all debiased
    values and their intervals are removed. For a metric without debiased values, the points unchanged."""
    if metric_row(metric).interval != "calibration" or is_debiased(points):
        return points
    return points.assign(**dict.fromkeys(("debiased", "low", "high"), np.nan))


def is_debiased(points: pd.DataFrame) -> bool:
    """True if every point with a value has a debiased one."""
    return bool(points.loc[points["value"].notna(), "debiased"].notna().all())


def levels(record: RunRecord, split: str, metric: str, debiased: bool = True) -> dict[str, float]:
    """Reference lines for a metric: fine-tuned, pre-trained and, for accuracy, chance and majority class.

    A calibration error is the `debiased` one if the marks show that.
    There is no pre-trained line for a control whose rest is zero: its pre-trained state is the zeroed model.
    """
    scores = record.metrics.get(split)
    values = {}
    before = [("pretrained", "pretrained")] if rest_of(record.spec.localizer) == "base" else []
    for state, name in (("finetuned", "finetuned"), *before, (SCALED, TEMPERATURE)):
        one = scores.states.get(state, {}).get(metric) if scores else None
        if one and one.value is not None and not (name == TEMPERATURE and metric_row(metric).of_predictions):
            values[name] = one.debiased if debiased and one.debiased is not None else one.value
    return values | guesses(record, split, metric)


def chance(record: RunRecord, split: str, metric: str) -> dict[str, float]:
    """The expected accuracy of guessing; empty for other metrics."""
    return {CHANCE: record.task.guessing(split)} if metric == "accuracy" and record.task and record.task.labels else {}


def guesses(record: RunRecord, split: str, metric: str) -> dict[str, float]:
    """Accuracy of guessing: 1 / classes or options, and the most frequent class if that is higher."""
    levels = chance(record, split, metric)
    if not levels or record.task is None:
        return {}
    majority, by_chance = record.task.majority.get(split), levels[CHANCE]
    return levels | ({MAJORITY: majority} if majority and majority > by_chance + 1e-9 else {})


def history_of(history: pd.DataFrame, size: int | None) -> pd.DataFrame:
    """The steps of the search that found the main region (its target is the main size, or the nearest)."""
    if history.empty or history["target"].nunique() == 1:
        return history
    targets = np.sort(history["target"].unique())
    best = targets[np.argmin(np.abs(targets - (size or 0)))]
    return history[history["target"] == best]


def last_loss(history: pd.DataFrame) -> float:
    """The training loss of the last step, NaN if there was none."""
    return float(history["loss"].iloc[-1]) if len(history) else float("nan")


def pair_curve(briefs: Sequence[RunBrief], curves: Sequence[pd.DataFrame], split: str) -> pd.DataFrame:
    """The curves of all runs of a pair as one: one row per localizer, settings, seed, size and metric.

    If two runs give the same row, the run whose main size it is counts: it was searched for, not cut from a ranking.
    `settings` come from `nondefault_settings`.
    """
    if not briefs:
        return pd.DataFrame(columns=["settings", *CURVE_COLUMNS])
    of_brief = np.repeat(np.arange(len(briefs)), [len(curve) for curve in curves])  # vectorized: there are thousands
    rows = pd.concat(curves, ignore_index=True)
    whole = rows.assign(
        localizer=pd.Series([brief.localizer for brief in briefs]).iloc[of_brief].array,
        settings=pd.Series(nondefault_settings(briefs)).iloc[of_brief].array,
        is_main=rows["size"].to_numpy() == np.array([brief.size for brief in briefs])[of_brief],
    )
    whole = whole[whole["split"] == split].sort_values("is_main", ascending=False, kind="stable")
    keys = ["localizer", "settings", "seed", "size", "dataset", "split", "metric"]
    return whole.drop_duplicates(keys).drop(columns="is_main").sort_values(keys).reset_index(drop=True)


def curve_of_runs(
    briefs: Sequence[RunBrief], runs: Sequence[Run], split: str, read: Callable[[Run], pd.DataFrame]
) -> pd.DataFrame:
    """The combined curve of these runs, each at its gain and at 1; `read` returns a run's curve."""
    scaled = [(brief, run) for brief, run in zip(briefs, runs, strict=True) if run.record.gains]
    every = [*briefs, *(at_gain_1(brief) for brief, _ in scaled)]
    return pair_curve(every, [*map(read, runs), *(run.curve(gain=1.0) for _, run in scaled)], split)


def offered(curve: pd.DataFrame, record: RunRecord) -> list[str]:
    """The metrics in the curve, the task's own first."""
    stored = set(curve["metric"]) - {"recovered"}  # it has no reference level
    return metric_names(record.metric, (name for name in METRICS if name in stored))


def drawn(curve: pd.DataFrame, record: RunRecord) -> list[str]:
    """The metrics in the curve that reports and notebooks draw, a figure each: the first one and its companions."""
    known = offered(curve, record)
    return [metric for metric in panels(known[0]) if metric in known]


def at_gain_1(brief: RunBrief) -> RunBrief:
    """The run without its gain."""
    return replace(brief, settings=tuple((n, DEFAULTS[n] if n == GAIN else value) for n, value in brief.settings))


def nondefault_settings(briefs: Sequence[RunBrief]) -> list[str]:
    """For each brief, the settings that are not the default, in words, without settings that all of these briefs
    share, except the gain.

    Regions built by hand share one line, though each is another region; regions of equal size are distinguished by
    their days.
    """
    shared = set[tuple[str, str]].intersection(*(set(brief.settings) for brief in briefs)) if briefs else set()
    shared = {(name, value) for name, value in shared if name != GAIN}  # gain 1 is drawn next to it
    by_hand = {e.id: e for e in briefs if e.localizer == EXPRESSION}
    apart = repetition_words([e.size for e in by_hand.values()], list(by_hand.values()))
    more = dict(zip(by_hand, apart, strict=True))
    words = []
    for brief in briefs:
        if brief.localizer == EXPRESSION:
            scale = [setting_words(GAIN, brief.gain)] if brief.has_gain else []
            words.append(", ".join([*more[brief.id], *scale]))
        else:
            special = [(n, v) for n, v in brief.settings if v != DEFAULTS[n] and (n, v) not in shared]
            words.append(", ".join(setting_words(n, v, brief.has_classes) for n, v in special))
    return words


def by_kind(cells: pd.DataFrame) -> pd.DataFrame:
    """The map's cells summed by kind: kind, selected, total, density_ratio."""
    sums = cells.groupby("kind", sort=False)[["selected", "total"]].sum().reset_index()
    density = sums["selected"].sum() / max(sums["total"].sum(), 1)
    return sums.assign(density_ratio=sums["selected"] / sums["total"] / density if density else np.nan)


def by_layer(cells: pd.DataFrame) -> pd.DataFrame:
    """The map's cells summed by layer: layer, share of the region."""
    inside = cells.dropna(subset=["layer"])
    return inside.groupby("layer", sort=True)["share"].sum().reset_index()
