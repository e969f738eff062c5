"""What a task asks by a readout and how it is scored, as a hash: with its data, all that a result depends on of it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from skillviz.tasks.task import Task

OF_DATA = frozenset({"data", "label", "classes", "drop"})
"""Which rows there are and what their labels are: the fingerprint of the examples tells of these."""
SAID = frozenset({"name", "title", "source", "path"})
"""What only names or describes the task."""
KINDS = {"head": None, "prompt": "masked", "causal": "causal"}
"""Readout -> which of the templates and label words it asks with; the head is given the texts alone."""
APART = frozenset({"positive", "max_length", "max_length_causal", "template", "label_words"})
"""What is told of only as far as it counts: the longest input for the readout, its own template and words."""
OTHERS = {
    "head": frozenset({"lmbff_exact", "length_normalised"}), "prompt": frozenset({"length_normalised"}),
    "causal": frozenset(),
}  # fmt: skip
"""Further fields that a readout does not look at; it looks at all others, new ones too."""


def definition(task: Task, readout: str | None = None) -> str:
    """`readout=sha256` of the fields that change what a model is given or how it is scored by that readout.

    Without a readout those of all that the task can be asked by, with spaces between them.
    """
    if readout:
        return f"{readout}={_hash(task, readout)}"
    return " ".join(definition(task, each) for each, kind in KINDS.items() if kind is None or _is_asked(task, kind))


def same_definition(told: str | None, now: str | None) -> bool:
    """Whether a task is defined as it was told to be; a record that says nothing of it is taken at its word.

    What both tell of is compared: a readout that only one of them has changes nothing for the others.
    """
    if not told or not now:
        return True
    one, other = _by_readout(told), _by_readout(now)
    shared = one.keys() & other.keys()
    return bool(shared) and all(one[readout] == other[readout] for readout in shared)


def _hash(task: Task, readout: str) -> str:
    """Fields that are not set are left out, so that it stays as fields are added; `positive` is told of F1 only."""
    left_out = OF_DATA | SAID | APART | OTHERS[readout]
    told: dict[str, Any] = task.model_dump(mode="json", exclude=set(left_out), exclude_defaults=True)
    told["max_length"] = task.limit(readout)
    if kind := KINDS[readout]:
        told["template"], told["label_words"] = getattr(task.template, kind), getattr(task.label_words, kind)
    if task.metric == "f1":
        told["positive"] = task.positive
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _is_asked(task: Task, kind: str) -> bool:
    return getattr(task.template, kind) is not None and getattr(task.label_words, kind) is not None


def _by_readout(text: str) -> dict[str, str]:
    """Readout -> hash; a text that names no readout is all of it under no name."""
    return {readout: value for readout, _, value in (part.rpartition("=") for part in text.split(" "))}
