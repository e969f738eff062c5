"""A graft by hand as the worker scored it, beside the run's own region and both ends, and the exhibits of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.size_curve import by_size
from skillviz.core import formats, intervals
from skillviz.core.metrics import metric_row, panels
from skillviz.core.scores import probabilities
from skillviz.core.verdicts import NO_DIFFERENCE
from skillviz.plots.examples import class_probabilities
from skillviz.plots.overview import state_comparison
from skillviz.plots.region import cells, region_map
from skillviz.runs.metrics import estimate, metrics, positive
from skillviz.runs.record import Estimate, RunRecord, TaskNote
from skillviz.runs.tables import logit_columns
from skillviz.show import alt, measures, text
from skillviz.show.exhibit import OVER_EXAMPLES, Exhibit, drawn_once
from skillviz.show.region import READS
from skillviz.show.sentences import better_sides, metric_difference, metric_interval, metric_value, verdict

REGION = "this run's region"
STORED = {"pretrained": "pretrained", REGION: "grafted", "finetuned": "finetuned"}
MODELS = {
    "pretrained": "Pre-trained", "grafted": "grafted by hand", "finetuned": "fine-tuned", "complement": "complement",
}  # fmt: skip
SIZE_RATIO = 3.0  # a random region of up to so many times the size, or its share, is told of


@dataclass(frozen=True)
class Grafted:
    """Class scores by model ("grafted" and "complement" are the hand-made ones), and the metrics made of them."""

    logits: Mapping[str, np.ndarray]
    labels: np.ndarray
    scores: Mapping[str, Mapping[str, Estimate]]

    @property
    def n(self) -> int:
        """Examples."""
        return len(self.labels)

    def table(self) -> pd.DataFrame:
        """state, metric, value, debiased, low, high."""
        rows = [
            {"state": state, "metric": metric, **score.columns()}
            for state, row in self.scores.items()
            for metric, score in row.items()
        ]
        return pd.DataFrame(rows).astype({name: "float64" for name in ("value", "debiased", "low", "high")})

    def difference(self, metric: str, task: TaskNote) -> Estimate:
        """By hand less the run's own region, paired by example."""
        pair = self.logits["grafted"], self.logits[REGION]
        return estimate(intervals.metric_difference(*pair, self.labels, metric, positive(task)))


def shown_metrics(task: TaskNote) -> tuple[str, ...]:
    """What a graft is judged by here: the task's own metric, then calibration."""
    return tuple(panels(task.metric))


def grafted_of(
    answer: Mapping[str, Any], predictions: pd.DataFrame, split: str, task: TaskNote, wanted: Sequence[str] = ()
) -> Grafted:
    """The worker's answer, and what the run has stored on the same examples; by the metrics `wanted`, or the usual."""
    ids = [str(one) for one in answer["example_ids"]]
    rows = predictions[predictions["split"] == split]
    logits = dict(answer["logits"])
    for name, state in STORED.items():
        known = rows[rows["state"] == state].set_index("example_id")[logit_columns(task.labels)]
        if set(ids) <= set(known.index):
            logits[name] = known.loc[ids].to_numpy()
    labels = np.asarray(answer["labels"])
    wanted = wanted or shown_metrics(task)
    return Grafted(logits, labels, {name: metrics(z, labels, task, wanted) for name, z in logits.items()})


def sentence(graft: Grafted, record: RunRecord, split: str, is_run_region: bool) -> str:
    """How the graft by hand does beside the run's own region, as far as the paired interval says."""
    assert record.task is not None
    metric, total = record.task.metric, record.task.counts.get(split, graft.n)
    sample = formats.counted(graft.n, "example") if graft.n == total else f"{graft.n:,} of {total:,} examples"
    grafted = graft.scores["grafted"][metric]
    first = (
        f"On {sample} of the {split} set the graft has {metric_row(metric).title} "
        f"**{metric_value(metric, grafted.value)}** (95{formats.SPACE}%: {metric_interval(metric, grafted)})"
    )
    if is_run_region:
        return f"{first}: this is the run's own region."
    if REGION not in graft.logits:
        return f"{first}."
    return f"{first}. {compared(graft, record.task, metric)} {compared(graft, record.task, 'ece')}"


def compared(graft: Grafted, task: TaskNote, metric: str) -> str:
    """What the paired difference to the run's own region allows to be said."""
    difference, words = graft.difference(metric, task), metric_row(metric).title
    decided = verdict(metric, difference)
    other = metric_value(metric, graft.scores[REGION][metric].value)
    if decided == NO_DIFFERENCE:
        return f"No difference in {words} to this run's region ({other}) can be told."
    change = metric_difference(metric, difference)
    return f"In {words} it is **{decided}** than this run's region ({other}; difference {change})."


def by_chance(curve: pd.DataFrame, metric: str, size: int, split: str) -> str:
    """What a random region of about this size does, where stored runs have one; `curve` holds random runs alone."""
    points = by_size(curve, metric) if len(curve) else curve
    apart = (np.log(points["size"].to_numpy(float) / size)) if len(points) else np.empty(0)
    if not len(apart) or np.abs(apart).min() > np.log(SIZE_RATIO):
        return "No stored run of this pair has drawn a random region of about this size, so chance is not known here."
    row = points.iloc[int(np.abs(apart).argmin())]
    debiased = None if np.isnan(row["debiased"]) else row["debiased"]
    low_high = Estimate(value=row["value"], low=row["low"], high=row["high"], debiased=debiased)
    seeds = f", mean of {row['seeds']} seeds" if row["seeds"] > 1 else ""
    return (
        f"By chance: a random region of {formats.counted(int(row['size']), 'entry')} ({formats.share(row['share'])}) "
        f"has "
        f"{metric_row(metric).title} {metric_value(metric, row['value'])} "
        f"(95{formats.SPACE}%: {metric_interval(metric, low_high)}) on the whole {split} set{seeds}."
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
    """Each model's class for the typed example, and how sure it is."""
    phrases = []
    for state, rows in table.groupby("state", sort=False):
        best = int(rows["probability"].to_numpy().argmax())
        label = text.plain(labels[int(rows["class"].iloc[best])])
        phrases.append(f"{MODELS[str(state)]} **{label}** ({formats.percent(rows['probability'].iloc[best])})")
    return "; ".join(phrases)


@drawn_once
def layout(layers: pd.DataFrame, theme: str, height: int | None = None) -> Exhibit:
    """The map of layers and module kinds, of so many pixels; None for as many as its rows need."""
    table = cells(layers)
    return Exhibit(
        name="layout",
        title="Where it lies",
        figure=region_map(layers, theme=theme, height=height),
        reads=READS["density"],
        alt=alt.region_map(table, "density") if layers["selected"].any() else "The map is empty: no entry is chosen.",
        table=table,
        words=("enrichment",),
    )


@drawn_once
def states(graft: Grafted, record: RunRecord, split: str, theme: str) -> Exhibit:
    """The graft by hand and its complement beside the run's own region and both ends."""
    assert record.task is not None
    table, wanted = graft.table(), shown_metrics(record.task)
    return Exhibit(
        name="by_hand",
        title="The models side by side",
        figure=state_comparison(
            table, wanted, references=measures.guesses(record, split, record.task.metric), theme=theme, height=620
        ),
        reads="one mark a model, its line the 95 % interval over the examples of the sample. Grafted and complement "
        "are those of the region built above. " + better_sides(wanted),
        intervals=OVER_EXAMPLES,
        alt=alt.overview(table),
        table=table,
        words=("complement", "ece", "debiased", "nll", "chance"),
    )


@drawn_once
def typed(probabilities: pd.DataFrame, labels: Sequence[str], theme: str) -> Exhibit:
    """The probability of each class for a typed example, before and after."""
    return Exhibit(
        name="typed",
        title="What the models say to it",
        figure=class_probabilities(probabilities, labels, theme=theme),
        reads="one row a class, one mark a model: further right is surer. Grafted and complement are those of the "
        "region built above.",
        alt=f"{predicted(probabilities, labels).replace('**', '')}.",
        table=probabilities.assign(**{"class": [labels[int(number)] for number in probabilities["class"]]}),
        words=("confidence",),
    )
