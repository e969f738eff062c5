"""The transfer page's exhibits: the states on every task, and graft minus fine-tuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from skillviz.core.metrics import metric_row
from skillviz.plots.theme import state_style
from skillviz.plots.transfer import graft_minus_finetuned, zero_shot
from skillviz.runs.record import Scores, TransferNote
from skillviz.show import measures, text
from skillviz.show.exhibit import Exhibit, kept
from skillviz.show.sentences import metric_difference, metric_value

SHOWN = ("pretrained", "grafted", "finetuned")


@kept
def states(scores: Mapping[str, Scores], levels: Mapping[str, Mapping[str, float]], metric: str, theme: str) -> Exhibit:
    """Each model on each task; `scores` by task, the run's own first, `levels` by name and task."""
    table = score_table(scores)
    is_scaled = not metric_row(metric).of_predictions  # a temperature changes no prediction
    shown = table[table["state"].isin((*SHOWN, measures.TEMPERATURE) if is_scaled else SHOWN)]
    scaled = "Temperature-scaled is the fine-tuned model with its confidence fitted on validation data of its own task."
    return Exhibit(
        name="zeroshot",
        title=f"{metric_row(metric).heading} by task",
        figure=zero_shot(shown, list(scores), metric, references=levels, theme=theme),
        reads="one band a task, the run's own at the top; one mark a model, its line the 95 % interval over examples. "
        f"Nothing was trained on the other tasks. {scaled if is_scaled else ''}".strip(),
        alt=states_alt(shown[shown["metric"] == metric], metric),
        table=table,
        words=("ood", "temperature", "chance"),
    )


@kept
def differences(scores: Mapping[str, Scores], metric: str, theme: str) -> Exhibit:
    """Graft minus fine-tuned on each task, paired."""
    rows = [
        {"dataset": name, "metric": key, **value.model_dump()}
        for name, found in scores.items()
        for key, value in found.differences.items()
    ]
    table = pd.DataFrame(rows, columns=["dataset", "metric", "value", "low", "high"])
    better = "left" if metric_row(metric).better == "lower" else "right"
    said = [
        f"{name} {metric_difference(metric, found.differences[metric])}"
        for name, found in scores.items()
        if metric in found.differences
    ]
    return Exhibit(
        name="differences",
        title="Graft minus fine-tuned",
        figure=graft_minus_finetuned(table, list(scores), metric, theme=theme),
        reads=f"both models on the same examples; to the {better} of the dotted line the graft is better. An interval "
        "that crosses the line leaves open which one is.",
        alt=f"{metric_row(metric).title} of the graft minus the fine-tuned model: {'; '.join(said)}.",
        table=table,
        words=("paired",),
    )


def score_table(scores: Mapping[str, Scores]) -> pd.DataFrame:
    """dataset, state, metric, value, low, high, n."""
    parts = [measures.state_scores(found).assign(dataset=name, n=found.n) for name, found in scores.items()]
    whole = pd.concat(parts, ignore_index=True)
    return whole[["dataset", *(column for column in whole if column != "dataset")]]


def levels(
    labels: Sequence[str], own: Mapping[str, float], notes: Sequence[TransferNote], name: str
) -> dict[str, dict[str, float]]:
    """Chance and majority of each task; `own` are those of the run's own, called `name`."""
    chance = 1 / max(len(labels), 1)
    majority = {note.name: note.majority for note in notes if note.majority and note.majority > chance + 1e-9}
    found = {"chance": dict.fromkeys([name, *(note.name for note in notes)], chance)}
    own_majority = {name: own["majority"]} if "majority" in own else {}
    return found | ({"majority": own_majority | majority} if own_majority or majority else {})


def states_alt(rows: pd.DataFrame, metric: str) -> str:
    """Every model's value on every task."""
    words = []
    for dataset, own in rows.groupby("dataset", sort=False):
        said = [
            f"{state_style(str(s)).title} {metric_value(metric, v)}"
            for s, v in zip(own["state"], own["value"], strict=True)
        ]
        words.append(f"{text.plain(str(dataset))}: {', '.join(said)}")
    return f"{metric_row(metric).title} by task. " + "; ".join(words) + "."
