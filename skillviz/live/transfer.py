"""A pair's states on another task with the same labels, asked in that task's own words (paper, Fig. 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skillviz.core.encoded import Encoded
from skillviz.errors import BadData
from skillviz.live.request import Answer, Asked
from skillviz.models.predict import predict
from skillviz.models.states import STATES
from skillviz.runs.evaluate import scores
from skillviz.runs.record import TaskNote
from skillviz.runs.session import expanded
from skillviz.runs.transfer import LabelMap, Other, other_examples, training_texts
from skillviz.tasks import registry
from skillviz.tasks.encode import encode
from skillviz.tasks.sample import sampled
from skillviz.tasks.stamp import task_stamp


def transfer(
    asked: Asked,
    task: str,
    region: Mapping[str, Any] | None = None,
    sample: int | None = None,
    mapping: LabelMap | None = None,
    states: Sequence[str] = STATES,
) -> Answer:
    """Class scores on another task's test examples: `logits` by state, in the order of the pair's own labels.

    `mapping` takes a label of the other task to one of the pair's, or to None: its examples are left out; without
    it the names must agree. Examples whose text is among the source's training examples are `dropped`. `note` is
    what run.json would hold of it (runs.record.TransferNote), with the scores of these states.
    """
    other, encoded = other_of(asked, task, mapping, sample)
    chosen = asked.region(region) if any(state in ("grafted", "complement") for state in states) else None
    logits = {state: predict(asked.pair, encoded, state, chosen) for state in states}
    temperature = asked.run.record.temperature if asked.run and "finetuned" in logits else None
    scored = scores(logits, encoded.labels, scoring_note(asked), temperature)
    note = other.note(asked.pair.readout_name, encoded.labels, scored)
    return {
        "task": other.task.name,
        "label_names": list(asked.task.labels),
        "mapping": dict(other.mapping),
        "rows": other.rows,
        "dropped": other.dropped,
        "unmapped": other.unmapped,
        "notes": list(other.notes),
        "example_ids": encoded.ids,
        "labels": encoded.labels,
        "logits": logits,
        "note": note.model_dump(mode="json"),
    }


def other_of(asked: Asked, task: str, mapping: LabelMap | None, sample: int | None) -> tuple[Other, Encoded]:
    """The other task's examples for the pair, remembered for the next request, and as token ids.

    Raises BadData where they are no longer those that the run scored, so that both can be shown as one.
    """
    found = registry.task(expanded(task, "task"))
    readout = asked.pair.readout_name
    files = str((task_stamp(asked.task), task_stamp(found)))
    which = (files, readout, str(sorted(mapping.items(), key=str)) if mapping else "")

    def read() -> Other:
        training = asked.worker.once(("training", files), lambda: training_texts(asked.task))
        return other_examples(asked.task, found, readout, training, mapping, named=task)

    other = asked.worker.once(("other", *which), read)
    _refuse_changed(asked, other)
    most = asked.spec.max_test if sample is None else sample
    frame = sampled(other.frame, most, asked.spec.data_seed)
    key = ("encoded", *which, asked.spec.json_text(), most)
    return other, asked.worker.once(key, lambda: encode(other.task, frame, asked.pair.tokenizer, readout))


def scoring_note(asked: Asked) -> TaskNote:
    """The metric and labels that the pair's answers are scored by."""
    task = asked.task
    positive = task.positive if task.metric == "f1" else None
    return TaskNote(name=task.name, labels=task.labels, metric=task.metric, positive=positive)


def _refuse_changed(asked: Asked, other: Other) -> None:
    stored = asked.run.record.transfers if asked.run else ()
    for note in stored:
        same = (note.name, dict(note.mapping)) == (other.task.name, dict(other.mapping))
        if same and note.fingerprint and note.fingerprint != other.fingerprint:
            raise BadData(
                f"the test examples of '{other.task.name}' are not those that run {asked.run.id if asked.run else ''} "
                "was scored on; its data files, or the training data of the run's task, have changed."
            )
