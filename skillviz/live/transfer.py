"""A pair's states on another task with the same labels, asked in the words of its own (paper, Fig. 7)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.errors import BadData, BadInput
from skillviz.live.asked import Answer, Asked
from skillviz.live.held import sampled, task_stamp
from skillviz.models.predict import predict
from skillviz.models.states import STATES
from skillviz.runs.session import expanded
from skillviz.tasks import registry
from skillviz.tasks.source import opened
from skillviz.tasks.splits import load_test
from skillviz.tasks.task import Task


def transfer(
    asked: Asked,
    task: str,
    region: Mapping[str, Any] | None = None,
    sample: int | None = None,
    mapping: Mapping[str, str | None] | None = None,
    states: Sequence[str] = STATES,
) -> Answer:
    """Class scores on another task's test examples: `logits` by state, in the order of the pair's own labels.

    `mapping` takes a label of the other task to one of the pair's, or to None: its examples are left out; without
    it the names must agree. Examples whose text is among the source's training examples are `dropped`.
    """
    other = registry.task(expanded(task, "task"))
    if other.pair != asked.task.pair:
        raise BadInput(f"'{other.name}' and '{asked.task.name}' differ in the number of texts; choose another task.")
    labels = label_mapping(asked.task, other, mapping)
    frame, notes = load_test(other)
    n = len(frame)
    places = [None if labels[name] is None else asked.task.labels.index(str(labels[name])) for name in other.labels]
    frame = frame[[places[label] is not None for label in frame["label"]]]
    unmapped = n - len(frame)
    fresh = ~_seen(asked, frame)
    dropped, frame = int((~fresh).sum()), frame[fresh]
    if not len(frame):
        raise BadData(f"no test example of '{other.name}' is left: all occur in the source's training data.")
    frame = sampled(frame.assign(label=[places[label] for label in frame["label"]]), sample, asked.spec.data_seed)
    encoded = asked.encode(frame)
    chosen = asked.region(region) if any(state in ("grafted", "complement") for state in states) else None
    return {
        "task": other.name,
        "label_names": list(asked.task.labels),
        "mapping": dict(labels),
        "rows": n,
        "dropped": dropped,
        "unmapped": unmapped,
        "notes": list(notes),
        "example_ids": encoded.ids,
        "labels": encoded.labels,
        "logits": {state: predict(asked.pair, encoded, state, chosen) for state in states},
    }


def label_mapping(source: Task, other: Task, mapping: Mapping[str, str | None] | None = None) -> dict[str, str | None]:
    """Label of the other task -> the source's; by name, letter case aside, where no mapping is given."""
    known = {name.lower(): name for name in source.labels}
    if mapping is None:
        mapping = {name: known.get(name.lower()) for name in other.labels}
        missing = [name for name, own in mapping.items() if own is None]
        if missing:
            raise BadInput(
                f"'{missing[0]}' is a label of '{other.name}' that '{source.name}' does not have "
                f"({', '.join(source.labels)}); say which label each one is."
            )
    strange = [own for own in mapping.values() if own is not None and own not in source.labels]
    if set(mapping) != set(other.labels) or strange or all(own is None for own in mapping.values()):
        raise BadInput(
            f"a mapping takes each of {', '.join(other.labels)} to one of {', '.join(source.labels)}, or to none."
        )
    return {name: mapping[name] for name in other.labels}


def training_texts(source: Task) -> frozenset[bytes]:
    """Digests of the texts of the source's whole training split, whatever part of it a run was searched on."""
    with opened(source, ("train",)) as sources:
        train = sources["train"]
        return frozenset(text_digests(train.frame(source, np.arange(len(train.rows)))))


def text_digests(frame: pd.DataFrame) -> list[bytes]:
    """A digest of each example's texts, letter case and spaces aside."""
    columns: list[list[Any]] = [frame[name].tolist() for name in ("text_a", "text_b") if name in frame]
    plain = ("\0".join(" ".join(str(text).casefold().split()) for text in row) for row in zip(*columns, strict=True))
    return [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in plain]


def _seen(asked: Asked, frame: pd.DataFrame) -> np.ndarray:
    """True for the examples whose text is among the source's training examples."""
    key = ("training", str(task_stamp(asked.task)))
    training = asked.worker.once(key, lambda: training_texts(asked.task))
    return np.array([digest in training for digest in text_digests(frame)], dtype=bool)
