"""A graft built by hand and scored by the worker, compared with the run's own region and both ends; its exhibits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.size_curve import by_size
from skillviz.core import formats, intervals
from skillviz.core.draws import ANYWHERE, MATCHED
from skillviz.core.metrics import metric_row, panels
from skillviz.core.scores import probabilities
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED, DifferenceVerdict
from skillviz.plots.examples import class_probabilities
from skillviz.plots.overview import state_comparison
from skillviz.plots.region import cells, region_map
from skillviz.runs.metrics import estimate, metrics, positive
from skillviz.runs.record import Estimate, RunRecord, TaskNote
from skillviz.runs.tables import score_matrix
from skillviz.show import alt, measures, text
from skillviz.show.exhibit import OVER_EXAMPLES, Exhibit, drawn_once
from skillviz.show.region import READS
from skillviz.show.sentences import (
    better_sides,
    metric_difference,
    metric_estimate,
    metric_value,
    verdict,
)

REGION = "this run's region"
RANDOM, SAME_TENSORS = "random region", "random, same tensors"
CONTROLS = {ANYWHERE: RANDOM, MATCHED: SAME_TENSORS}
"""The names of the worker's random controls; both have exactly the size of the region that was built."""
STORED = {"pretrained": "pretrained", REGION: "grafted", "finetuned": "finetuned"}
MODELS = {
    "pretrained": "Pre-trained", "grafted": "your region", "finetuned": "fine-tuned", "complement": "complement",
}  # fmt: skip
TITLES = {
    "grafted": "Your region", RANDOM: "Random region, same size", SAME_TENSORS: "Random, same number in each tensor",
    REGION: "This run's region", "complement": "Fine-tuned without your region", "finetuned": "Fine-tuned",
    "pretrained": "Pre-trained",
}  # fmt: skip
ORDER = tuple(TITLES)
HEIGHT = 330  # pixels of the comparison
SIZE_RATIO = 3.0  # the largest ratio between the size of a random region and the built one at which it is reported


@dataclass(frozen=True)
class Grafted:
    """Class scores by model ("grafted" and "complement" are the hand-made ones), and their metrics."""

    logits: Mapping[str, np.ndarray]
    labels: np.ndarray
    scores: Mapping[str, Mapping[str, Estimate]]

    @property
    def n(self) -> int:
        """The number of examples."""
        return len(self.labels)

    def without(self, name: str) -> Grafted:
        """All models except this one."""
        logits = {key: z for key, z in self.logits.items() if key != name}
        return Grafted(logits, self.labels, {key: of for key, of in self.scores.items() if key != name})

    def table(self) -> pd.DataFrame:
        """state, metric, value, debiased, low, high."""
        rows = [
            {"state": state, "metric": metric, **score.columns()}
            for state, row in self.scores.items()
            for metric, score in row.items()
        ]
        return pd.DataFrame(rows).astype({name: "float64" for name in ("value", "debiased", "low", "high")})

    def difference(self, metric: str, task: TaskNote, against: str = REGION) -> Estimate:
        """The graft of the built region minus another model, paired by example."""
        pair = self.logits["grafted"], self.logits[against]
        return estimate(intervals.metric_difference(*pair, self.labels, metric, positive(task)))


def shown_metrics(task: TaskNote) -> tuple[str, ...]:
    """The metrics of a graft shown here: the task's own, then calibration."""
    return tuple(panels(task.metric))


def grafted_of(
    answer: Mapping[str, Any], predictions: pd.DataFrame, split: str, task: TaskNote, wanted: Sequence[str] = ()
) -> Grafted:
    """The worker's answer and the run's stored predictions on the same examples, scored by `wanted` or default
    metrics."""
    ids = [str(one) for one in answer["example_ids"]]
    rows = predictions[predictions["split"] == split]
    logits = {CONTROLS.get(name, name): z for name, z in answer["logits"].items()}
    for name, state in STORED.items():
        known = rows[rows["state"] == state].set_index("example_id")
        if set(ids) <= set(known.index):
            logits[name] = score_matrix(known.loc[ids], task.labels)
    labels = np.asarray(answer["labels"])
    wanted = wanted or shown_metrics(task)
    return Grafted(logits, labels, {name: metrics(z, labels, task, wanted) for name, z in logits.items()})


def sample_words(n: int, total: int, split: str) -> str:
    """`200 of 600 test examples`, `all 600 test examples`."""
    return f"all {n:,} {split} examples" if n == total else f"{n:,} of {total:,} {split} examples"


def finding(graft: Grafted, task: TaskNote, against: str) -> tuple[DifferenceVerdict, str]:
    """The verdict on the built region's graft compared with another model, in the task's metric, with its numbers."""
    metric = task.metric
    difference, built, other = (
        graft.difference(metric, task, against), graft.scores["grafted"][metric], graft.scores[against][metric]
    )  # fmt: skip
    words = f"{metric_row(metric).title} **{metric_value(metric, built.read)}** vs {metric_value(metric, other.read)}"
    return verdict(metric, difference), f"{words}, {metric_difference(metric, difference)}"


def scoreboard(graft: Grafted, sizes: Mapping[str, int], total: int) -> pd.DataFrame:
    """One row per model, in the order of TITLES: its size, its number of examples, and each metric with its interval,
    as text.

    `sizes` are the entries by model; empty for other models.
    """
    rows = []
    for name in (name for name in ORDER if name in graft.scores):
        of = graft.scores[name]
        size = formats.count(sizes[name]) if name in sizes else ""
        numbers = {metric_row(m).heading: metric_estimate(m, of[m]) for m in of}
        rows.append({"model": TITLES[name], "entries": size, "examples": f"{graft.n:,} of {total:,}", **numbers})
    return pd.DataFrame(rows)


def compared(graft: Grafted, task: TaskNote, metric: str) -> str:
    """The built region's graft compared with the run's own region, as far as the paired interval supports it."""
    difference, words = graft.difference(metric, task), metric_row(metric).title
    decided = verdict(metric, difference)
    other = metric_value(metric, graft.scores[REGION][metric].read)
    if decided == NOT_MEASURED:
        return f"The difference in {words} from this run's region ({other}) is {NOT_MEASURED}: it has no interval."
    if decided == NO_DIFFERENCE:
        return f"No clear difference in {words} from this run's region ({other})."
    change = metric_difference(metric, difference)
    return f"In {words} it is **{decided}** than this run's region ({other}; difference {change})."


def by_chance(curve: pd.DataFrame, metric: str, size: int, split: str) -> str:
    """The score of a random region of about this size, if stored runs have one; `curve` holds only random runs."""
    points = by_size(curve, metric) if len(curve) else curve
    apart = (np.log(points["size"].to_numpy(float) / size)) if len(points) else np.empty(0)
    if not len(apart) or np.abs(apart).min() > np.log(SIZE_RATIO):
        return "No stored run of this pair has a random region of about this size."
    row = points.iloc[int(np.abs(apart).argmin())]
    debiased = None if np.isnan(row["debiased"]) else row["debiased"]
    low_high = Estimate(value=row["value"], low=row["low"], high=row["high"], debiased=debiased)
    seeds = f", mean of {row['seeds']} seeds" if row["seeds"] > 1 else ""
    return (
        f"Stored: a random region of {formats.counted(int(row['size']), 'entry')} ({formats.share(row['share'])}) has "
        f"{metric_row(metric).title} {metric_estimate(metric, low_high)} on the "
        f"whole {split} set{seeds}."
    )


def typed_probabilities(logits: Mapping[str, np.ndarray], states: Sequence[str]) -> pd.DataFrame:
    """state, class, probability of one typed example; `logits` [1, label] by state."""
    rows = [
        {"state": state, "class": number, "probability": float(share)}
        for state in states
        for number, share in enumerate(probabilities(logits[state])[0])
    ]
    return pd.DataFrame(rows, columns=["state", "class", "probability"])


def predicted(table: pd.DataFrame, labels: Sequence[str]) -> str:
    """Each model's class for the typed example, with its confidence."""
    phrases = []
    for state, rows in table.groupby("state", sort=False):
        best = int(rows["probability"].to_numpy().argmax())
        label = text.plain(labels[int(rows["class"].iloc[best])])
        phrases.append(f"{MODELS[str(state)]} **{label}** ({formats.percent(rows['probability'].iloc[best])})")
    return "; ".join(phrases)


@drawn_once
def layout(layers: pd.DataFrame, theme: str, height: int | None = None, sides: bool = True) -> Exhibit:
    """The map of layers and module kinds; `height` in pixels, None for the height that its rows need.

    `sides` adds bars with the share of each layer and each kind.
    """
    table = cells(layers)
    return Exhibit(
        name="layout",
        title="Where your region is",
        figure=region_map(layers, sides=sides, theme=theme, height=height),
        reads=READS["density"],
        alt=alt.region_map(table, "density") if layers["selected"].any() else "The map is empty: no entry is chosen.",
        table=table,
        words=("density",),
    )


@drawn_once
def states(graft: Grafted, record: RunRecord, split: str, metric: str, theme: str) -> Exhibit:
    """The graft of the built region, random regions of its size, the run's own region, base and fine-tuned model."""
    assert record.task is not None
    table = graft.table()
    guesses = measures.guesses(record, split, metric)
    chance = {"chance": guesses["chance"]} if guesses else {}  # the majority is computed on the whole split
    sample = sample_words(graft.n, record.task.counts.get(split, graft.n), split)
    return Exhibit(
        name="by_hand",
        title=f"{metric_row(metric).heading} on {sample}",
        figure=state_comparison(table, (metric,), references=chance, theme=theme, height=HEIGHT),
        reads="one mark a model, its line the 95% interval over these examples; all models are scored on the same "
        "ones. Grafted and complement are those of your region. Each random region is one draw of the same size. "
        + better_sides((metric,)),
        alt=alt.overview(table[table["metric"] == metric]),
        intervals=OVER_EXAMPLES,
        table=table,
        words=("complement", "ece", "debiased", "nll", "chance"),
    )


@drawn_once
def typed(probabilities: pd.DataFrame, labels: Sequence[str], theme: str) -> Exhibit:
    """The probability of each class for a typed example, before and after."""
    return Exhibit(
        name="typed",
        title="Confidence by class",
        figure=class_probabilities(probabilities, labels, theme=theme),
        reads="one row per class, one marker per model: further right is more confident. Grafted and complement are "
        "those of your region.",
        alt=f"{predicted(probabilities, labels).replace('**', '')}.",
        table=probabilities.assign(**{"class": [labels[int(number)] for number in probabilities["class"]]}),
        words=("confidence",),
    )
