"""Another task's test examples for a pair: labels mapped, training examples dropped and counted (paper, Fig. 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.class_names import places
from skillviz.core.encoded import Encoded
from skillviz.errors import BadData, BadInput
from skillviz.runs.record import Scores, TaskNote, TransferNote
from skillviz.tasks.definition import definition
from skillviz.tasks.leaks import digests, training_texts, whole_split, without
from skillviz.tasks.readable_names import name_beside
from skillviz.tasks.splits import Splits, class_notes, fingerprint, load_test, sampled
from skillviz.tasks.task import GENERATION, LabelWords, Task, Template

KINDS = {"prompt": "masked", "causal": "causal"}

LabelMap = Mapping[str, str | None]


@dataclass(frozen=True)
class Other:
    """The test examples of another task, with `frame` as in tasks.splits and labels numbered like the source's.

    `task` is the other task as used for the pair: with its own prompt, for the source's labels. `mapping` maps each of
    its own labels to one of the source's, or to None. Among `rows` examples, two kinds are left out: the ones mapped to
    None (`unmapped`), and the ones whose text is among the source's training examples (`dropped`, None if that was not
    checked). `fingerprint` is the frame's.
    """

    named: str
    task: Task
    mapping: LabelMap
    rows: int
    dropped: int | None
    unmapped: int
    frame: pd.DataFrame
    fingerprint: str
    notes: tuple[str, ...]

    def note(self, readout: str, encoded: Encoded, scores: Scores) -> TransferNote:
        """Return its note for run.json; `encoded` are the examples that were scored."""
        labels = encoded.labels
        kind = KINDS.get(readout)
        template, words = self.task.wording(readout) if kind else ("", ())
        return TransferNote(
            name=self.task.name, named=self.named, mapping=dict(self.mapping), rows=self.rows, dropped=self.dropped,
            unmapped=self.unmapped, notes=(*self.notes, *encoded.notes), fingerprint=self.fingerprint,
            template=template, words=words, majority=float(np.bincount(labels).max() / len(labels)),
            definition=definition(self.task, readout), scores=scores,
        )  # fmt: skip

    def task_note(self, source: TaskNote) -> TaskNote:
        """Return the source's metric and labels under this task's name, for scoring."""
        return source.model_copy(update={"name": self.task.name})


def label_mapping(source: Task, other: Task, mapping: LabelMap | None = None) -> dict[str, str | None]:
    """Return a map from each label of the other task to one of the source's.

    Without a given mapping, labels are matched by name (see `core.class_names.places`). Raises BadInput if a task has
    no classes, if the two differ in their number of texts, or if their labels do not match.
    """
    if (own := next((task for task in (source, other) if not task.has_classes), None)) is not None:
        why = "has options of its own for each example and"
        if own.kind == GENERATION:
            why = "generates its answer and has" if own.generates else "has a reference for each example and"
        raise BadInput(f"'{own.name}' {why} no classes; choose another task.")
    if other.pair != source.pair:
        raise BadInput(f"'{other.name}' and '{source.name}' differ in the number of texts; choose another task.")
    if mapping is None:
        found = places(other.labels, source.labels)
        mapping = {n: None if at is None else source.labels[at] for n, at in zip(other.labels, found, strict=True)}
        missing = [name for name, label in mapping.items() if label is None]
        if missing:
            raise BadInput(
                f"'{missing[0]}' is a label of '{other.name}' that '{source.name}' does not have "
                f"({', '.join(source.labels)}); say which label each one is."
            )
    strange = [label for label in mapping.values() if label is not None and label not in source.labels]
    if set(mapping) != set(other.labels) or strange or all(label is None for label in mapping.values()):
        raise BadInput(
            f"a mapping takes each of {', '.join(other.labels)} to one of {', '.join(source.labels)}, or to none."
        )
    return {name: mapping[name] for name in other.labels}


def refuse_unfit(source: Task, others: Mapping[str, Task]) -> None:
    """Raise BadInput for the first task that cannot be scored with the source's model; no data are read."""
    names = [source.name]
    for named, other in others.items():
        if other.name in names:
            raise BadInput(f"'{named}' is called '{other.name}', as another task of this run; name each task once.")
        try:
            label_mapping(source, other)
        except BadInput as error:
            reason = str(error.args[0]).partition("; ")[0]
            raise BadInput(f"{reason}; only tasks with the same labels can be scored with it.") from error
        names.append(other.name)


def other_examples(
    source: Task,
    other: Task,
    readout: str,
    training: frozenset[bytes] | None,
    mapping: LabelMap | None = None,
    named: str = "",
) -> Other:
    """Return the other task's test examples for a model tuned on the source.

    `training` is as returned by `leaks.training_texts`. If it is None, no example is dropped and `dropped` is None.
    Raises BadInput if the tasks do not fit together, BadData if no example is left.
    """
    labels = label_mapping(source, other, mapping)
    frame, notes = load_test(other)
    other = other.model_copy(update={"name": name_beside(other.name, source.name)})
    rows = len(frame)
    places = [None if labels[name] is None else source.labels.index(str(labels[name])) for name in other.labels]
    frame = frame[[places[label] is not None for label in frame["label"]]]
    unmapped = rows - len(frame)
    dropped = None
    if training is not None:
        fresh = without(frame, training)
        dropped, frame = len(frame) - len(fresh), fresh
    if not len(frame):
        raise BadData(
            f"no test example of '{other.name}' is left: of {rows:,}, "
            f"{'an unknown number' if dropped is None else f'{dropped:,}'} occur in the training data of "
            f"'{source.name}' and {unmapped:,} have a label that is left out. Choose another task."
        )
    frame = frame.assign(label=[places[label] for label in frame["label"]]).reset_index(drop=True)
    task, remarks = in_its_words(source, other, labels, readout)
    return Other(
        named or other.name, task, labels, rows, dropped, unmapped, frame, fingerprint({"test": frame}),
        (*notes, *class_notes(source, "test", frame["label"]), *remarks),
    )  # fmt: skip


def in_its_words(source: Task, other: Task, mapping: LabelMap, readout: str) -> tuple[Task, tuple[str, ...]]:
    """Return the other task with the source's labels and its own prompt.

    If it has no prompt, it gets the source's, with a note. A label of the source gets the label word of the other
    task's label that is mapped to it; if there are several, the first.
    """
    kind = KINDS.get(readout)
    plain: dict[str, Any] = {
        "name": other.name, "data": other.data, "text": other.text, "label": other.label, "labels": source.labels,
        "max_length": other.max_length, "max_length_causal": other.max_length_causal,
        "lmbff_exact": other.lmbff_exact, "length_normalised": other.length_normalised,
    }  # fmt: skip
    if kind is None:
        return Task(**plain), ()
    template, words = getattr(other.template, kind), _words(source, other, mapping, kind)
    if template is None or words is None:
        note = f"'{other.name}' has no label words for the {readout} readout; those of '{source.name}' are used."
        return source.model_copy(update={"name": other.name}), (note,)
    return Task(**plain, template=Template(**{kind: template}), label_words=LabelWords(**{kind: words})), ()


def _words(source: Task, other: Task, mapping: LabelMap, kind: str) -> tuple[str, ...] | None:
    """Return the other task's word for each of the source's labels; None if it has no words, or not one for each."""
    words, source_words = getattr(other.label_words, kind), getattr(source.label_words, kind)
    if words is None:
        return None
    by_label: dict[str, str] = {}
    for label, word in zip(other.labels, words, strict=True):
        mapped = mapping[label]
        if mapped is not None and (mapped not in by_label or places([label], [mapped]) == [0]):
            by_label[mapped] = word
    rest = dict(zip(source.labels, source_words or (None,) * len(source.labels), strict=True))
    chosen = [by_label.get(label) or rest[label] for label in source.labels]
    return tuple(str(word) for word in chosen) if None not in chosen and len(set(chosen)) == len(chosen) else None


@dataclass(frozen=True)
class OtherTexts:
    """Training texts of another task in the form of a task's own examples, and a note on them.

    Their labels are 0 and mean nothing; `fingerprint` is the frame's.
    """

    frame: pd.DataFrame
    note: str
    fingerprint: str


def other_texts(source: Task, other: Task, splits: Splits, most: int | None, seed: int) -> OtherTexts:
    """Return at most `most` training texts of another task, without those that are held-out examples of the source.

    Raises BadInput if its examples have another number of texts, BadData if none is left.
    """
    if other.pair != source.pair:
        raise BadInput(f"'{other.name}' and '{source.name}' differ in the number of texts; name another task as texts.")
    frame = whole_split(other, "train")
    fresh = without(frame, {*digests(splits.validation), *digests(splits.test)})
    if not len(fresh):
        raise BadData(
            f"every training text of '{other.name}' is held out by '{source.name}'; name another task as texts."
        )
    columns = [name for name in ("example_id", "text_a", "text_b") if name in frame]
    left = sampled(fresh[columns].assign(label=0), most, seed)
    sha256 = fingerprint({"train": left})
    note = (
        f"The search uses {len(left):,} training texts of {other.name} and no label (sha256 {sha256[:12]}); "
        f"{len(frame) - len(fresh):,} that {source.name} holds out for validation or test are left out."
    )
    return OtherTexts(left, note, sha256)


def seen_texts(task: Task, splits: Splits, max_train: int | None) -> frozenset[bytes]:
    """Return digests of the texts that a model of this task may have been trained on.

    These are all texts except those left out by a k-shot draw. If the splits hold only a part of the train split (the
    rest is validation or over the cap), fine-tuning elsewhere may have used all of it.
    """
    is_part = len(splits.train) > 0 and (max_train is not None or splits.validates_on_train)
    return training_texts(task) if is_part and splits.k_shot is None else frozenset(digests(splits.train))
