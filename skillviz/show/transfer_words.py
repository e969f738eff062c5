"""What the transfer page says: its sentence, what was counted, how labels and words go together."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.runs.record import RunRecord, TransferNote
from skillviz.show import text
from skillviz.show.sentences import metric_difference, verdict

MOST = 3  # tasks that the sentence tells one by one


def summary(notes: Sequence[TransferNote], metric: str) -> str:
    """How the graft does against the fine-tuned model on the other tasks, in Markdown."""
    if not notes:
        return (
            "This run was scored on its own task alone. Choose another task with the same labels to ask the models "
            "how they do on it, zero-shot."
        )
    words, said = metric_row(metric).title, [_one(note, metric) for note in notes[:MOST]]
    more = _rest(notes[MOST:], metric)
    whole = "; ".join([*said, *more])
    return f"Zero-shot {words} on {formats.counted(len(notes), 'other task')}, graft minus fine-tuned: {whole}."


def _one(note: TransferNote, metric: str) -> str:
    difference, name = note.scores.differences.get(metric), text.plain(note.name)
    if difference is None or difference.value is None:
        return f"on {name} there is nothing to compare"
    told, decided = metric_difference(metric, difference), verdict(metric, difference)
    if decided == "undecided":
        return f"on {name} {told}, **no difference can be told**"
    return f"on {name} {told}, the graft is **{decided}**"


def _rest(notes: Sequence[TransferNote], metric: str) -> list[str]:
    """The other tasks by verdict: `better on 2 of 4 others`."""
    if not notes:
        return []
    verdicts = [verdict(metric, note.scores.differences.get(metric)) for note in notes]
    counts = [f"{name} on {verdicts.count(name)}" for name in ("better", "worse", "undecided") if name in verdicts]
    return [f"of {len(notes)} more the graft is {formats.listed(counts, 3)}"]


def counted(note: TransferNote, source: str) -> str:
    """How many of the other task's test examples were scored, and why not the others."""
    kept = note.rows - note.dropped - note.unmapped
    said = [
        f"{formats.counted(note.rows, 'test example')}",
        f"{formats.count(note.dropped)} left out because they occur in the training data of {text.plain(source)}",
        f"{formats.count(note.unmapped)} left out because of their label",
        f"**{formats.count(note.scores.n)} scored**",
    ]
    if note.scores.n < kept:
        said[-1] += f", drawn from {formats.count(kept)}"
    return "; ".join(said) + "."


def mapping(note: TransferNote, labels: Sequence[str]) -> pd.DataFrame:
    """One row a label of the other task: the run's label that it stands for, and the word that is asked for."""
    words = dict(zip(labels, note.words, strict=False))
    rows = [
        {
            "label there": theirs,
            "label here": own or "left out",
            "answer word": words.get(own, "") if own else "",
        }
        for theirs, own in note.mapping.items()
    ]
    found = pd.DataFrame(rows)
    return found if note.words else found.drop(columns="answer word")


def missing(record: RunRecord, named: Sequence[str]) -> str:
    """The command that makes the run again, scored on these tasks too."""
    others = tuple(dict.fromkeys((*record.spec.others, *named)))
    return record.spec.model_copy(update={"others": others or ("TASK",)}).command()
