"""The output of a classification head for each label of a task, matched by the names in the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skillviz.core.class_names import Matching, match
from skillviz.core.comparison import Comparison
from skillviz.errors import PairMismatch
from skillviz.models.checkpoint import ModelInfo
from skillviz.models.heads import ClassNames, class_names
from skillviz.tasks.task import Task


@dataclass(frozen=True)
class ClassOrder:
    """The head's output for each label of the task; `outputs` is None if they are in the task's own order.

    `error` is set if the names contradict that order and give no other one. `notes` explain the matching if the names
    differ from the task's.
    """

    outputs: tuple[int, ...] | None = None
    error: PairMismatch | None = None
    notes: tuple[str, ...] = ()


def names_of_pair(finetuned: ModelInfo, base: ModelInfo) -> ClassNames:
    """Return the fine-tuned model's names of its classes; for an adapter whose folder has none, its base's names."""
    own = class_names(finetuned.config)
    return class_names(base.config) if finetuned.adapter is not None and own.are_numbers else own


def class_order(finetuned: ModelInfo, base: ModelInfo, task: Task, outputs: int | None) -> ClassOrder:
    """Return the order of the head's `outputs` for the task; empty if their number differs from the task's."""
    if outputs is not None and outputs != len(task.labels):
        return ClassOrder()
    named = names_of_pair(finetuned, base)
    names = named.names if len(named.names) == len(task.labels) else ()
    matching = match(names, task.labels)
    if matching.comparison is Comparison.DIFFERENT:
        at = names.index(matching.misplaced)
        return ClassOrder(
            error=PairMismatch(
                f"the fine-tuned model names its labels {', '.join(names)}, the task {', '.join(task.labels)}: "
                f"'{matching.misplaced}' is output {at} of the model and another label of the task, and the other "
                "names do not match. Use the model's names as the task's labels, or correct its id2label."
            )
        )
    notes = tuple(_notes(finetuned, base, named, names, task, matching))
    return ClassOrder(matching.order if matching.is_reordered else None, notes=notes)


def _notes(
    finetuned: ModelInfo, base: ModelInfo, named: ClassNames, names: tuple[str, ...], task: Task, matching: Matching
) -> Iterator[str]:
    labels = ", ".join(task.labels)
    if named.contradiction:
        yield (
            f"The fine-tuned model's id2label and label2id give '{named.contradiction}' to different outputs. id2label "
            "is used, as transformers does; correct one of them in its config.json."
        )
    if finetuned.adapter is not None and matching.order is not None:
        of_base = match(class_names(base.config).names, names)
        if of_base.is_reordered:
            yield "The adapter's config.json names the classes in another order than its base; the adapter's is used."
    if matching.comparison is Comparison.UNKNOWN and (named.are_numbers or not names):
        yield (
            f"The fine-tuned model does not name its classes, so its outputs are taken in the order of the task's "
            f"labels: {labels}. If its own accuracy is another one, check that order."
        )
    elif matching.comparison is Comparison.UNKNOWN:
        yield (
            f"The fine-tuned model names its labels {', '.join(names)}, the task {labels}; they are matched by their "
            "order. If that is wrong, use the model's names as the task's labels."
        )
    elif matching.taken or matching.is_reordered:
        taken = ", ".join(f"'{name}' as '{label}'" for name, label in matching.taken)
        yield (
            f"The fine-tuned model names its labels {', '.join(names)}, the task {labels}; they are matched by name"
            f"{f', {taken}' if taken else ''}."
        )
