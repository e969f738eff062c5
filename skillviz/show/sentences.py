"""The sentence under each title, computed from the run; it makes a claim only if the interval supports it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from skillviz.core import formats
from skillviz.core.localizers.table import is_rescaled, rest_of
from skillviz.core.metrics import metric_row
from skillviz.core.parameters import layers_note
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED, DifferenceVerdict
from skillviz.plots.theme import localizer_style, state_style
from skillviz.runs.held_out import why_not
from skillviz.runs.record import Estimate, RunRecord, Scores
from skillviz.show import text
from skillviz.tasks.project import with_a_checkout

RIVALS = {"finetuned": "the fine-tuned model", "temperature": "temperature scaling"}

NO_GAIN = "Fine-tuning did not improve on the base model, so there is no gain to recover."


def metric_value(metric: str, value: float | None) -> str:
    """`80.1%` or `0.430`, in the metric's unit."""
    return metric_row(metric).number(value)


def better_sides(metrics: Sequence[str]) -> str:
    """`Better is right for accuracy, left for ECE and NLL.`: the direction of better values for these metrics."""
    sides = {"right": "higher", "left": "lower"}
    rows = [metric_row(metric) for metric in metrics]
    titles = {side: [row.title for row in rows if row.better == way] for side, way in sides.items()}
    halves = [f"{side} for {formats.listed(names, len(names))}" for side, names in titles.items() if names]
    return f"Better is {', '.join(halves)}." if halves else ""


def metric_interval(metric: str, estimate: Estimate) -> str:
    """`77.4–82.6` or `0.412–0.450`; for a calibration error followed by the plug-in value: `6.1–9.6, plug-in 8.3%`."""
    ends = metric_row(metric).ends(estimate.low, estimate.high)
    return ends if estimate.debiased is None else f"{ends}, plug-in {metric_value(metric, estimate.value)}"


def metric_estimate(metric: str, estimate: Estimate | None) -> str:
    """`80.1% (77.4–82.6)`, `7.9% (6.1–9.6, plug-in 8.3%)`; `n/a` without a number."""
    if estimate is None or estimate.value is None:
        return formats.MISSING
    value = metric_value(metric, estimate.read)
    return value if estimate.low is None else f"{value} ({metric_interval(metric, estimate)})"


def metric_difference(metric: str, estimate: Estimate) -> str:
    """`−2.9 points (95%: −5.1 to −0.8)`."""
    return metric_row(metric).difference(estimate.value, estimate.low, estimate.high, estimate.debiased)


def verdict(metric: str, difference: Estimate | None) -> DifferenceVerdict:
    """`better`, `worse` or `no clear difference` for grafted - fine-tuned; `not measured` without an interval."""
    return metric_row(metric).verdict(difference.low, difference.high) if difference is not None else NOT_MEASURED


def overview(record: RunRecord, scores: Scores) -> str:
    """The finding in Markdown: the size of the region, the gain that it recovers, and the graft's calibration."""
    if rest_of(record.spec.localizer) == "zero":
        return restored(record, scores)
    return " ".join(filter(None, (restored(record, scores), calibration(scores, before_scaling(record)))))


def restored(record: RunRecord, scores: Scores) -> str:
    """The size of the region and the gain that it recovers."""
    size = f"**{formats.share(record.share)}** of the graftable parameters"
    if rest_of(record.spec.localizer) == "zero":
        return _control(record, scores, size)
    counted = f"{size} ({formats.count(record.size)} of {formats.count(record.d)})"
    if is_rescaled(record.spec.localizer):
        factor = f"multiplied by {formats.count(round(1 / record.share))}" if record.share else "rescaled"
        moved = f"A control, no graft: adding the movement of {counted}, {factor}, to the base"
        return f"{moved} {_recovery(record, scores, 's')}"
    if record.gain != 1:
        counted = f"{counted}, moved **{formats.times(record.gain)} times** as far as by fine-tuning,"
    return f"{counted} {_recovery(record, scores)}"


def _control(record: RunRecord, scores: Scores, size: str) -> str:
    """The same for a control: nothing is copied into the pre-trained model, and no gain is recovered."""
    metric = record.metric
    graft, none, tuned = (
        metric_estimate(metric, scores.states.get(state, {}).get(metric))
        for state in ("grafted", "pretrained", "finetuned")
    )
    return (
        f"A control: {size} ({formats.count(record.size)} of {formats.count(record.d)}) keep their fine-tuned values, "
        f"and **the rest is zero** instead of pre-trained. {metric_row(metric).heading} {graft}; with all of "
        f"them zero, called pre-trained in this run, {none}; fine-tuned {tuned}."
    )


def basis(scores: Scores, record: RunRecord, split: str) -> str:
    """The basis of a run's numbers, in one line."""
    name = text.tasks(record.task_name)
    count = len(record.task.labels) if record.task else 0
    if record.has_reference:
        how = "generated greedily" if record.generates else "scored by the likelihood of the references"
        return f"{_n(scores)} of the {split} set of {name}, {how}; intervals over examples."
    answers = f"{count} classes" if record.has_classes else f"up to {count} options each"
    return (
        f"{_n(scores)} of the {split} set of {name}, {answers}; ECE with 15 equal-width bins; intervals over examples."
    )


def no_classes(record: RunRecord) -> str:
    """The reason why there are no results by class if every example has its own options or reference."""
    if record.has_reference:
        is_for = "which the model is to generate" if record.generates else "whose likelihood is taken"
        return f"Not applicable: the task has no classes. Each example has a reference, {is_for}."
    first, *_, last = record.task.labels if record.task else ("", "")
    return (
        f"Not applicable: the task has no classes. Each example has options of its own, and {text.plain(first)} to "
        f"{text.plain(last)} only name their places."
    )


def no_confidence(record: RunRecord) -> str:
    """The reason why there are no calibration results for references; empty if there are results."""
    if not record.has_reference:
        return ""
    return (
        "Not applicable: calibration compares the confidence in a class with accuracy, and the task has no classes. "
        "Perplexity says how likely the references are."
    )


def architecture(record: RunRecord) -> str:
    """The note on the model's layers and modules that a reader of the map needs; empty if they are the usual ones."""
    built = record.architecture
    if built is None:
        return ""
    if not built.known:
        return (
            f"The architecture '{text.plain(built.model_type)}' is not in skillviz's table of families: its "
            "tensors are listed under their own names."
        )
    return layers_note(built.layers, (), built.repeats) or ""  # the map's axis names the stacks


def one_step(record: RunRecord, loss: float) -> str:
    """The choice of a localizer without a search; `loss` in nats, NaN if the localizer used no loss."""
    basis = (
        "without looking at the loss"
        if math.isnan(loss)
        else f"at a training loss of **{formats.number(loss, 2)}** nats"
    )
    name, count = localizer_style(record.spec.localizer).title, formats.count(record.size)
    return f"*{name}* chose all **{count}** entries in one step, {basis}: there is no search to follow."


def _recovery(record: RunRecord, scores: Scores, ending: str = "") -> str:
    """`recover 89% of the gain (...)`; `ending` is the ending of the verb."""
    metric = record.metric
    ends = [scores.states.get(s, {}).get(metric) for s in ("pretrained", "grafted", "finetuned")]
    before, graft, after = (metric_value(metric, e.value if e else None) for e in ends)
    path = f"{metric_row(metric).title} {before} → {graft}, fine-tuned {after}"
    if scores.recovered is None or scores.recovered.value is None:
        return f"give{ending} {path}. {_unrecovered(scores, metric)}"
    interval = f"95%: {formats.percent_interval(scores.recovered.low, scores.recovered.high, 0)}"
    share = f"**{formats.percent(scores.recovered.value, 0)}** of the gain ({interval})"
    return f"recover{ending} {share}: {path}."


def before_scaling(record: RunRecord) -> str:
    """` before temperature scaling` for a number from unscaled logits, if the run also has scaled ones; else empty."""
    return " before temperature scaling" if any(note.temperature is not None for note in record.gains[:1]) else ""


def calibration(scores: Scores, before: str = "") -> str:
    """The graft's calibration compared with the fine-tuned model's, as far as the paired interval supports it;
    `before` comes from `before_scaling`."""
    graft, tuned = (scores.states.get(s, {}).get("ece") for s in ("grafted", "finetuned"))
    if graft is None or tuned is None or graft.value is None or tuned.value is None:
        return ""
    pair = f"ECE{before} {formats.percent(graft.read)} vs {formats.percent(tuned.read)}"
    difference = scores.differences.get("ece")
    decided = verdict("ece", difference)
    if difference is None or decided == NOT_MEASURED:
        return f"Calibration: {NOT_MEASURED} against fine-tuned, no interval ({pair}, n = {formats.count(scores.n)})."
    if decided == NO_DIFFERENCE:
        return f"Calibration: {NO_DIFFERENCE} from fine-tuned ({pair}, n = {formats.count(scores.n)})."
    change = metric_difference("ece", difference)
    return f"**{formats.capital(decided)} calibrated** than the fine-tuned model: {pair}, {change}."


def calibration_line(record: RunRecord, scores: Scores) -> tuple[DifferenceVerdict, str] | None:
    """The verdict on the graft's calibration against the fine-tuned model's, and both errors; None if one is
    missing."""
    graft, tuned = (scores.states.get(state, {}).get("ece") for state in ("grafted", "finetuned"))
    difference = scores.differences.get("ece")
    if graft is None or tuned is None or difference is None:
        return None
    pair = f"{metric_value('ece', tuned.read)} → {metric_value('ece', graft.read)}"
    what = f"Calibration error{before_scaling(record)}"
    return verdict("ece", difference), f"{what} {pair}, {metric_difference('ece', difference)}"


def ece_basis(bins: int, equal_mass: bool, n: int) -> str:
    """What calibration errors stand on, why shown errors need not add up to their difference (`error_interval` of
    `core.calibration_error` cuts at 0, `difference_interval` does not), and that equal-mass bins have no interval."""
    kind = "equal mass" if equal_mass else "equal width"
    basis = f"Expected calibration error (ECE) with {bins} bins of {kind} on {formats.counted(n, 'example')}."
    cut = "A debiased error below 0 is shown as 0; differences count it as it is."
    return f"{basis} {'Equal mass has no interval; use equal width for a verdict.' if equal_mass else cut}"


def ece_against(rival: str, values: Mapping[str, float | None], difference: Estimate) -> str:
    """The calibration errors of the graft and of a rival (RIVALS), and their paired difference."""
    graft, other = (formats.percent(values[state]) for state in ("grafted", rival))
    return f"ECE **{graft}** for the graft, **{other}** for {RIVALS[rival]}: {metric_difference('ece', difference)}."


def _n(scores: Scores) -> str:
    return formats.counted(scores.n, "example")


def region(kinds: pd.DataFrame, layers: pd.DataFrame) -> str:
    """The location of the entries: the densest kind, and the range of layers that hold half of them.

    `kinds` has kind, selected, total, density_ratio; `layers` has layer (from 1) and share, adding up to 1.
    """
    chosen = kinds[kinds["selected"] > 0]
    if chosen.empty:
        return "The region is empty: nothing was copied."
    dense = chosen.sort_values("density_ratio", ascending=False, kind="stable").iloc[0]
    most = chosen.sort_values("selected", ascending=False, kind="stable").iloc[0]
    share = formats.percent(most["selected"] / int(chosen["selected"].sum()), 0)
    first = f"The module with the most is **{most['kind']}** ({share})"
    density = f"{times(dense['density_ratio'])} the average density"
    return f"{_span(layers)}{first}; the densest is **{dense['kind']}** ({density})."


def times(ratio: float) -> str:
    """`3.2×`."""
    return formats.number(ratio, 1 if ratio >= 0.95 else 2) + "×"


def tensor(row: pd.Series, rows: int, cols: int) -> str:
    """One tensor: the share of it that is chosen, and its movement in fine-tuning."""
    whole = f"{formats.count(rows)} × {formats.count(cols)}" if rows > 1 else f"{formats.count(cols)}"
    share = formats.share(row["selected"] / row["total"])
    chosen = f"**{formats.counted(int(row['selected']), 'entry')}** of {whole} ({share})"
    moved = f"mean {row['movement_mean']:.2g}, largest {row['movement_max']:.2g}, length {row['movement_l2']:.3g}"
    return f"{chosen} are in the region. Movement in fine-tuning: {moved}."


def _span(layers: pd.DataFrame) -> str:
    """The shortest range of neighboring layers with at least half of the entries."""
    shares = layers["share"].to_numpy()
    numbers = layers["layer"].to_numpy()
    if len(shares) < 2 or shares.sum() == 0:
        return ""
    spans = [(j - i, -shares[i : j + 1].sum(), i, j) for i in range(len(shares)) for j in range(i, len(shares))]
    _, share, i, j = min(s for s in spans if -s[1] >= 0.5 * shares.sum() - 1e-12)
    where = f"**Layer {numbers[i]}** holds" if i == j else f"**Layers {numbers[i]}{formats.TO}{numbers[j]}** hold"
    return f"{where} {formats.percent(-share, 0)} of the region. "


def sparsity_reads(points: pd.DataFrame, metric: str) -> str:
    """Reading instructions for the sparsity figure of a metric that depend on the drawn points."""
    most = int(points["seeds"].max()) if len(points) else 1
    over = f"over examples and up to {most} seeds" if most > 1 else "over examples (one seed)"
    return (
        f"further left is a smaller region. Vertical lines are 95% intervals, {over}. A localizer that chooses its "
        f"own size is shown as single marks, one a run. {debiased_marks(metric, points)}".rstrip()
    )


def debiased_marks(metric: str, points: pd.DataFrame) -> str:
    """The value of a calibration error that the marks show; empty for other metrics."""
    row = metric_row(metric)
    if row.interval != "calibration":
        return ""
    if points["debiased"].notna().any():
        return f"Marks stand at the debiased {row.title}, as the intervals do. "
    return f"Marks are the plug-in {row.title}, without intervals, as some sizes have no stored predictions to debias. "


def library(entries: int, tasks: int, failed: int) -> str:
    """The number of listed runs."""
    base = f"**{formats.counted(entries, 'run')}** on {formats.counted(tasks, 'task')}"
    return base + (f"; {failed} did not finish." if failed else ".") + with_a_checkout()


def temperature(record: RunRecord) -> str:
    """The fitted temperature, or the reason why there is none."""
    if record.temperature is not None:
        value = formats.number(record.temperature, 2)
        return f"{state_style('temperature').title}: temperature {value}, fitted on validation data."
    return why_not(record.unfitted) or "No temperature was fitted: the run has no validation predictions."


def no_gain(scores: Scores, metric: str) -> str:
    """The sentence that there is no gain to recover, with advice if fine-tuning made the model worse; else empty."""
    if scores.recovered is not None and scores.recovered.value is not None:
        return ""
    why, gain = _unrecovered(scores, metric), _gain(scores, metric)
    if gain is None or gain >= 0:
        return "" if gain else why  # with a gain, a control or a run without a graft still recovers none of it
    return f"{why} It does worse than the base: check that its labels (id2label) are in the task's order."


def _unrecovered(scores: Scores, metric: str) -> str:
    """The reason why no recovered gain is given: there is no gain, or it is not measured."""
    gain = _gain(scores, metric)
    if gain is None:
        return f"The gain in {metric_row(metric).title} is {NOT_MEASURED}: these examples cannot support it."
    if gain > 0 and scores.recovered is not None:
        return "No share of the gain is given: its 95% interval reaches 0."
    return NO_GAIN if gain <= 0 else f"The share that it recovers is {NOT_MEASURED}."


def _gain(scores: Scores, metric: str) -> float | None:
    """The gain of fine-tuning, above 0 if better; None if an end is not measured."""
    found = [scores.states.get(state, {}).get(metric) for state in ("pretrained", "finetuned")]
    before, after = (end.value if end is not None else None for end in found)
    return None if before is None or after is None else metric_row(metric).sign * (after - before)
