"""The states on other tasks: the summary, the counted examples, the mapping of labels, and the exhibits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED, DifferenceVerdict
from skillviz.plots.figure import centers
from skillviz.plots.theme import state_style
from skillviz.plots.transfer import graft_minus_finetuned, zero_shot
from skillviz.runs.record import RunRecord, Scores, TransferNote
from skillviz.show import measures, text
from skillviz.show.comparisons import counted_rows
from skillviz.show.exhibit import OVER_EXAMPLES, PAIRED, Exhibit, drawn_once
from skillviz.show.sentences import metric_difference, metric_value, verdict
from skillviz.show.table_words import with_task_names
from skillviz.tasks.readable_names import readable

MOST = 3  # tasks that are described one by one
SHOWN = ("pretrained", "grafted", "finetuned")
ALONE = "This run was scored on its own task alone."


def findings(notes: Sequence[TransferNote], metric: str) -> list[tuple[DifferenceVerdict, str]]:
    """For each of the first MOST tasks, the verdict on the graft against the fine-tuned model, with its numbers."""
    return [(verdict(metric, note.scores.differences.get(metric)), _task_words(note, metric)) for note in notes[:MOST]]


def summary(notes: Sequence[TransferNote], metric: str) -> str:
    """The graft compared with the fine-tuned model on the other tasks, in Markdown."""
    if not notes:
        return ALONE
    phrases = [f"{words}: **{decided}**" for decided, words in findings(notes, metric)]
    return f"{'; '.join([*phrases, *rest(notes, metric)])}. {comparisons(notes, metric)}".strip()


def rest(notes: Sequence[TransferNote], metric: str) -> list[str]:
    """The tasks after the first MOST, by verdict: `4 more: better on 2, no clear difference on 2`."""
    verdicts = [verdict(metric, note.scores.differences.get(metric)) for note in notes[MOST:]]
    names = [name for name in ("better", "worse", NO_DIFFERENCE, NOT_MEASURED) if name in verdicts]
    counts = [f"{name} on {verdicts.count(name)}" for name in names]
    return [f"{len(verdicts)} more: {', '.join(counts)}"] if verdicts else []


def comparisons(notes: Sequence[TransferNote], metric: str) -> str:
    """The number of verdicts over several tasks, the number expected by chance alone, and the number that hold;
    empty for fewer than two tasks."""
    known = [
        {**one.columns(), "n": note.scores.n, "gained": one.gained, "lost": one.lost}
        for note in notes
        if (one := note.scores.differences.get(metric)) is not None
    ]
    columns = ["value", "debiased", "low", "high", "n", "gained", "lost"]
    return counted_rows(pd.DataFrame(known, columns=columns).astype("float64"))  # None is NaN


def _task_words(note: TransferNote, metric: str) -> str:
    """`restaurant-sentiment, zero-shot: accuracy **79.5 %** grafted vs 79.8% fine-tuned, −0.3 points (...)`."""
    difference, name = note.scores.differences.get(metric), text.tasks(note.name)
    if difference is None or difference.value is None:
        return f"{name}: nothing to compare"
    graft, tuned = (note.scores.states.get(state, {}).get(metric) for state in ("grafted", "finetuned"))
    words, change = metric_row(metric).title, metric_difference(metric, difference)
    if graft is None or tuned is None:
        return f"{name}, zero-shot: {words} {change}"
    both = f"**{metric_value(metric, graft.read)}** grafted vs {metric_value(metric, tuned.read)} fine-tuned"
    return f"{name}, zero-shot: {words} {both}, {change}"


def counted(note: TransferNote) -> str:
    """The number of the other task's test examples that were scored, and the reasons why others were not."""
    usable = note.rows - (note.dropped or 0) - note.unmapped
    sample = f", a sample of {formats.count(usable)}" if note.scores.n < usable else ""
    seen = "some may have been seen in training: this task's own data, which would tell, are not on this machine"
    if note.dropped is not None:
        seen = f"{formats.count(note.dropped)} skipped (seen in training)"
    return (
        f"**{formats.counted(note.scores.n, 'example')}** scored{sample} · {seen} · {formats.count(note.unmapped)} "
        "skipped (label not mapped)"
    )


def mapping(note: TransferNote, labels: Sequence[str]) -> pd.DataFrame:
    """One row per label of the other task: the run's label that it is mapped to, and its answer word."""
    words = dict(zip(labels, note.words, strict=False))
    rows = [
        {
            "label there": theirs,
            "label here": label or "skipped",
            "answer word": words.get(label, "") if label else "",
        }
        for theirs, label in note.mapping.items()
    ]
    table = pd.DataFrame(rows)
    return table if note.words else table.drop(columns="answer word")


def missing(record: RunRecord, named: Sequence[str]) -> str:
    """The command that makes the run again and scores it on these tasks too."""
    others = tuple(dict.fromkeys((*record.spec.others, *named)))
    return record.spec.model_copy(update={"others": others or ("TASK",)}).command()


@drawn_once
def states(scores: Mapping[str, Scores], levels: Mapping[str, Mapping[str, float]], metric: str, theme: str) -> Exhibit:
    """Each model on each task; `scores` by task, the run's own first, `levels` by name and task."""
    table = score_table(scores)
    is_scaled = not metric_row(metric).of_predictions  # a temperature changes no prediction
    shown = table[table["state"].isin((*SHOWN, measures.TEMPERATURE) if is_scaled else SHOWN)]
    shown = with_task_names(shown)
    named = {name: {readable(task): level for task, level in of.items()} for name, of in levels.items()}
    scaled = "Temperature-scaled is the fine-tuned model with its confidence fitted on validation data of its own task."
    return Exhibit(
        name="zeroshot",
        title=f"{metric_row(metric).heading} by task",
        figure=zero_shot(shown, list(map(readable, scores)), metric, references=named, theme=theme),
        reads="one band per task, the run's own on top; one marker per model, its line the 95% interval. "
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
        f"{readable(name)} {metric_difference(metric, task_scores.differences[metric])}"
        for name, task_scores in scores.items()
        if metric in task_scores.differences
    ]
    return Exhibit(
        name="differences",
        title="Graft minus fine-tuned",
        figure=graft_minus_finetuned(with_task_names(table), list(map(readable, scores)), metric, theme=theme),
        reads=f"both models on the same examples; to the {better} of the dotted line the graft is better. Where the "
        "interval crosses the line, there is no clear difference.",
        intervals=PAIRED,
        alt=f"{metric_row(metric).title} of the graft minus the fine-tuned model: {'; '.join(phrases)}.",
        table=table,
        words=("paired",),
    )


def score_table(scores: Mapping[str, Scores]) -> pd.DataFrame:
    """dataset, state, metric, value, debiased, low, high, n."""
    parts = [
        measures.state_scores(task_scores).assign(dataset=name, n=task_scores.n) for name, task_scores in scores.items()
    ]
    whole = pd.concat(parts, ignore_index=True)
    return whole[["dataset", *(column for column in whole if column != "dataset")]]


def levels(
    labels: Sequence[str], guesses: Mapping[str, float], notes: Sequence[TransferNote], name: str
) -> dict[str, dict[str, float]]:
    """Chance and majority of each task; `guesses` belong to the run's own task, called `name`."""
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
            for s, v in zip(of_dataset["state"], centers(of_dataset, 1.0), strict=True)
        ]
        words.append(f"{dataset}: {', '.join(phrases)}")
    return f"{metric_row(metric).title} by task. " + "; ".join(words) + "."
