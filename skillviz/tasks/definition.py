"""A task's definition as a hash, with its prompts and scoring: all that a result depends on except the data."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from skillviz.core.comparison import Comparison
from skillviz.tasks.task import Task

OF_DATA = frozenset({"data", "label", "classes", "drop", "options", "answer", "reference", "out_of_scope"})
"""Fields about the rows, their options and their labels: the fingerprint of the examples covers these."""
DESCRIPTIVE = frozenset({"name", "title", "source", "path"})
"""Fields that only name or describe the task."""
KINDS = {"head": None, "prompt": "masked", "causal": "causal"}
"""Readout -> the kind of template and label words in its prompts; the head gets the texts alone."""
APART = frozenset({"positive", "max_length", "max_length_causal", "template", "label_words"})
"""Fields that count only in part: the longest input for the readout, its own template and words."""
ONLY_CAUSAL = frozenset({"length_normalised", "max_new_tokens", "stop", "ignore_case", "ignore_punctuation"})
"""Fields that only the causal readout uses."""
OTHERS = {"head": ONLY_CAUSAL | {"lmbff_exact"}, "prompt": ONLY_CAUSAL, "causal": frozenset[str]()}
"""Further fields that a readout does not use; it uses all others, including new ones."""


UNCOMPARED = (
    "The run does not store the definition of the task '{}' (template, label words, metric or lengths). The task "
    "may have changed since."
)
"""The sentence about a task (its name is filled in) if `compared` is UNKNOWN."""


def definition(task: Task, readout: str | None = None) -> str:
    """`readout=sha256` of the fields that change a model's input or its score with that readout.

    Without a readout, the hashes for all readouts that the task supports, separated by spaces.
    """
    if readout:
        return f"{readout}={_hash(task, readout)}"
    askable = ["causal"] if not task.has_classes else [
        each for each, kind in KINDS.items()
        if kind is None or None not in (getattr(task.template, kind), getattr(task.label_words, kind))
    ]  # fmt: skip
    return " ".join(definition(task, each) for each in askable)


def compared(stored: str | None, now: str | None) -> Comparison:
    """The comparison of a stored definition with the present one: UNKNOWN if either is missing.

    Only readouts in both are compared: a readout that only one of them has changes nothing for the others.
    """
    if not stored or not now:
        return Comparison.UNKNOWN
    one, other = _by_readout(stored), _by_readout(now)
    shared = one.keys() & other.keys()
    is_same = bool(shared) and all(one[readout] == other[readout] for readout in shared)
    return Comparison.SAME if is_same else Comparison.DIFFERENT


def _hash(task: Task, readout: str) -> str:
    """Fields that are not set are left out, so that new fields do not change the hash; `positive` counts for F1
    only."""
    left_out = OF_DATA | DESCRIPTIVE | APART | OTHERS[readout]
    fields: dict[str, Any] = task.model_dump(mode="json", exclude=set(left_out), exclude_defaults=True)
    fields["max_length"] = task.limit(readout)
    if kind := KINDS[readout]:
        fields["template"], fields["label_words"] = getattr(task.template, kind), getattr(task.label_words, kind)
    if task.f1_class is not None:
        fields["positive"] = task.f1_class
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _by_readout(text: str) -> dict[str, str]:
    """Readout -> hash; a text without a readout is stored whole under the empty name."""
    return {readout: value for readout, _, value in (part.rpartition("=") for part in text.split(" "))}
