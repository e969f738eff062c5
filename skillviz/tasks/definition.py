"""What a task asks by a readout and how it is scored, as a hash: with its data, all that a result depends on of it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from skillviz.core.comparison import Comparison
from skillviz.tasks.task import Task

OF_DATA = frozenset({"data", "label", "classes", "drop", "options", "answer", "reference", "out_of_scope"})
"""Which rows there are, their options and what their labels are: the fingerprint of the examples tells of these."""
DESCRIPTIVE = frozenset({"name", "title", "source", "path"})
"""What only names or describes the task."""
KINDS = {"head": None, "prompt": "masked", "causal": "causal"}
"""Readout -> which of the templates and label words it asks with; the head is given the texts alone."""
APART = frozenset({"positive", "max_length", "max_length_causal", "template", "label_words"})
"""What counts only in part: the longest input for the readout, its own template and words."""
ONLY_CAUSAL = frozenset({"length_normalised", "max_new_tokens", "stop", "ignore_case", "ignore_punctuation"})
"""What only the causal readout looks at."""
OTHERS = {"head": ONLY_CAUSAL | {"lmbff_exact"}, "prompt": ONLY_CAUSAL, "causal": frozenset[str]()}
"""Further fields that a readout does not look at; it looks at all others, new ones too."""


UNCOMPARED = (
    "The run does not store the definition of the task '{}' (template, label words, metric or lengths). The task "
    "may have changed since."
)
"""The sentence about a task, by its name, where `compared` is UNKNOWN."""


def definition(task: Task, readout: str | None = None) -> str:
    """`readout=sha256` of the fields that change what a model is given or how it is scored by that readout.

    Without a readout those of all that the task can be asked by, with spaces between them.
    """
    if readout:
        return f"{readout}={_hash(task, readout)}"
    askable = ["causal"] if not task.has_classes else [
        each for each, kind in KINDS.items()
        if kind is None or None not in (getattr(task.template, kind), getattr(task.label_words, kind))
    ]  # fmt: skip
    return " ".join(definition(task, each) for each in askable)


def compared(stored: str | None, now: str | None) -> Comparison:
    """The comparison of a stored definition with the present one: UNKNOWN where either is missing.

    The readouts that both name are compared: a readout that only one of them has changes nothing for the others.
    """
    if not stored or not now:
        return Comparison.UNKNOWN
    one, other = _by_readout(stored), _by_readout(now)
    shared = one.keys() & other.keys()
    is_same = bool(shared) and all(one[readout] == other[readout] for readout in shared)
    return Comparison.SAME if is_same else Comparison.DIFFERENT


def _hash(task: Task, readout: str) -> str:
    """Fields that are not set are left out, so that it stays as fields are added; `positive` counts for F1 only."""
    left_out = OF_DATA | DESCRIPTIVE | APART | OTHERS[readout]
    fields: dict[str, Any] = task.model_dump(mode="json", exclude=set(left_out), exclude_defaults=True)
    fields["max_length"] = task.limit(readout)
    if kind := KINDS[readout]:
        fields["template"], fields["label_words"] = getattr(task.template, kind), getattr(task.label_words, kind)
    if task.f1_class is not None:
        fields["positive"] = task.f1_class
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _by_readout(text: str) -> dict[str, str]:
    """Readout -> hash; a text that names no readout is all of it under no name."""
    return {readout: value for readout, _, value in (part.rpartition("=") for part in text.split(" "))}
