"""The states on other tasks: the sentence, what was counted, how labels go together, and the exhibits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.core.many_comparisons import compared
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import NO_DIFFERENCE
from skillviz.plots.theme import state_style
from skillviz.plots.transfer import graft_minus_finetuned, zero_shot
from skillviz.runs.record import RunRecord, Scores, TransferNote
from skillviz.show import measures, text
from skillviz.show.comparisons import counted as counted_comparisons
from skillviz.show.exhibit import OVER_EXAMPLES, PAIRED, Exhibit, drawn_once
from skillviz.show.sentences import metric_difference, metric_value, verdict

MOST = 3  # tasks that the sentence tells one by one
SHOWN = ("pretrained", "grafted", "finetuned")


def summary(notes: Sequence[TransferNote], metric: str) -> str:
    """How the graft does against the fine-tuned model on the other tasks, in Markdown."""
    if not notes:
        return (
            "This run was scored on its own task alone. Choose another task with the same labels to ask the models "
            "how they do on it, zero-shot."
        )
    words, phrases = metric_row(metric).title, [_task_words(note, metric) for note in notes[:MOST]]
    more = _verdict_counts(notes[MOST:], metric)
    whole = "; ".join([*phrases, *more])
    first = f"Zero-shot {words} on {formats.counted(len(notes), 'other task')}, graft minus fine-tuned: {whole}."
    return first + _many(notes, metric)


def _many(notes: Sequence[TransferNote], metric: str) -> str:
    """Of several tasks, how many verdicts there are, how many chance alone gives, and how many hold."""
    told = [one for note in notes if (one := note.scores.differences.get(metric)) is not None and one.value is not None]
    numbers = [(one.value, one.low, one.high, one.debiased) for one in told]
    ends = np.array(numbers, dtype=np.float64).reshape(-1, 4)  # None is NaN
    return " " + counted_comparisons(compared(*ends.T)) if len(told) > 1 else ""


def _task_words(note: TransferNote, metric: str) -> str:
    difference, name = note.scores.differences.get(metric), text.plain(note.name)
    if difference is None or difference.value is None:
        return f"on {name} there is nothing to compare"
    change, decided = metric_difference(metric, difference), verdict(metric, difference)
    if decided == NO_DIFFERENCE:
        return f"on {name} {change}, **no difference can be told**"
    return f"on {name} {change}, the graft is **{decided}**"


def _verdict_counts(notes: Sequence[TransferNote], metric: str) -> list[str]:
    """The other tasks by verdict: `better on 2 of 4 others`."""
    if not notes:
        return []
    verdicts = [verdict(metric, note.scores.differences.get(metric)) for note in notes]
    counts = [f"{name} on {verdicts.count(name)}" for name in ("better", "worse", NO_DIFFERENCE) if name in verdicts]
    return [f"of {len(notes)} more: {formats.listed(counts, 3)}"]


def counted(note: TransferNote, source: str) -> str:
    """How many of the other task's test examples were scored, and why not the others."""
    usable = note.rows - note.dropped - note.unmapped
    phrases = [
        f"{formats.counted(note.rows, 'test example')}",
        f"{formats.count(note.dropped)} left out because they occur in the training data of {text.plain(source)}",
        f"{formats.count(note.unmapped)} left out because of their label",
        f"**{formats.count(note.scores.n)} scored**",
    ]
    if note.scores.n < usable:
        phrases[-1] += f", drawn from {formats.count(usable)}"
    return "; ".join(phrases) + "."


def mapping(note: TransferNote, labels: Sequence[str]) -> pd.DataFrame:
    """One row a label of the other task: the run's label that it stands for, and the word that is asked for."""
    words = dict(zip(labels, note.words, strict=False))
    rows = [
        {
            "label there": theirs,
            "label here": label or "left out",
            "answer word": words.get(label, "") if label else "",
        }
        for theirs, label in note.mapping.items()
    ]
    table = pd.DataFrame(rows)
    return table if note.words else table.drop(columns="answer word")


def missing(record: RunRecord, named: Sequence[str]) -> str:
    """The command that makes the run again, scored on these tasks too."""
    others = tuple(dict.fromkeys((*record.spec.others, *named)))
    return record.spec.model_copy(update={"others": others or ("TASK",)}).command()


@drawn_once
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
        intervals=OVER_EXAMPLES,
        alt=states_alt(shown[shown["metric"] == metric], metric),
        table=table,
        words=("ood", "temperature", "chance"),
    )


@drawn_once
def differences(scores: Mapping[str, Scores], metric: str, theme: str) -> Exhibit:
    """Graft minus fine-tuned on each task, paired."""
    rows = [
        {"dataset": name, "metric": key, **value.columns()}
        for name, task_scores in scores.items()
        for key, value in task_scores.differences.items()
    ]
    table = pd.DataFrame(rows, columns=["dataset", "metric", "value", "debiased", "low", "high"])
    better = "left" if metric_row(metric).better == "lower" else "right"
    phrases = [
        f"{name} {metric_difference(metric, task_scores.differences[metric])}"
        for name, task_scores in scores.items()
        if metric in task_scores.differences
    ]
    return Exhibit(
        name="differences",
        title="Graft minus fine-tuned",
        figure=graft_minus_finetuned(table, list(scores), metric, theme=theme),
        reads=f"both models on the same examples; to the {better} of the dotted line the graft is better. An interval "
        "that crosses the line leaves open which one is.",
        intervals=PAIRED,
        alt=f"{metric_row(metric).title} of the graft minus the fine-tuned model: {'; '.join(phrases)}.",
        table=table,
        words=("paired",),
    )


def score_table(scores: Mapping[str, Scores]) -> pd.DataFrame:
    """dataset, state, metric, value, low, high, n."""
    parts = [
        measures.state_scores(task_scores).assign(dataset=name, n=task_scores.n) for name, task_scores in scores.items()
    ]
    whole = pd.concat(parts, ignore_index=True)
    return whole[["dataset", *(column for column in whole if column != "dataset")]]


def levels(
    labels: Sequence[str], guesses: Mapping[str, float], notes: Sequence[TransferNote], name: str
) -> dict[str, dict[str, float]]:
    """Chance and majority of each task; `guesses` are those of the run's own, called `name`."""
    chance = 1 / max(len(labels), 1)
    majority = {note.name: note.majority for note in notes if note.majority and note.majority > chance + 1e-9}
    by_name = {"chance": dict.fromkeys([name, *(note.name for note in notes)], chance)}
    if "majority" in guesses:
        majority = {name: guesses["majority"]} | majority
    return by_name | ({"majority": majority} if majority else {})


def states_alt(rows: pd.DataFrame, metric: str) -> str:
    """Every model's value on every task."""
    words = []
    for dataset, of_dataset in rows.groupby("dataset", sort=False):
        phrases = [
            f"{state_style(str(s)).title} {metric_value(metric, v)}"
            for s, v in zip(of_dataset["state"], of_dataset["value"], strict=True)
        ]
        words.append(f"{text.plain(str(dataset))}: {', '.join(phrases)}")
    return f"{metric_row(metric).title} by task. " + "; ".join(words) + "."
