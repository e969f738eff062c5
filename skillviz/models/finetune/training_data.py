"""A task's examples prepared for training: sampled, encoded once, without texts that other tasks evaluate on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skillviz.core.encoded import Encoded, encoding_notes
from skillviz.errors import BadData
from skillviz.models.finetune.training_config import DataSettings
from skillviz.tasks.encode import encode
from skillviz.tasks.leaks import digests
from skillviz.tasks.splits import Splits, fingerprint
from skillviz.tasks.task import USUAL_LENGTH, Task


@dataclass(frozen=True)
class TrainingData:
    """The splits of one task, each encoded when it is first used."""

    task: Task
    splits: Splits
    readout: str
    _encoded: dict[str, Encoded] = field(default_factory=dict, repr=False)

    def encoded(self, split: str, tokenizer: Any) -> Encoded:
        """Return the split's examples as token ids; all models of one base have the same tokenizer."""
        if split not in self._encoded:
            self._encoded[split] = encode(self.task, getattr(self.splits, split), tokenizer, self.readout)
        return self._encoded[split]

    @property
    def encoding_notes(self) -> tuple[str, ...]:
        """The changes that encoding made to the encoded texts."""
        return encoding_notes(self._encoded)

    def limit(self, tokenizer: Any) -> int:
        """Return the maximum input length in tokens, to which the examples were truncated."""
        return min(self.task.limit(self.readout) or USUAL_LENGTH, int(tokenizer.model_max_length))

    @property
    def counts(self) -> dict[str, int]:
        """The number of examples by split."""
        return {name: len(getattr(self.splits, name)) for name in ("train", "validation", "test")}


def training_data(tasks: Sequence[Task], settings: DataSettings, readout: str) -> list[TrainingData]:
    """Return the tasks' examples, each training set without the texts of another task's test or validation set.

    All examples of the other task count, without caps. A note of the splits gives the number of removed examples.
    Raises BadData if nothing is left to train on.
    """
    splits = [settings.load(task) for task in tasks]
    if len(tasks) == 1:
        return [TrainingData(tasks[0], splits[0], readout)]
    evaluated = [{*digests(whole.validation), *digests(whole.test)} for whole in map(settings.load_without_caps, tasks)]
    return [
        TrainingData(
            task,
            _without(task, splits[i], set().union(*(texts for j, texts in enumerate(evaluated) if j != i))),
            readout,
        )
        for i, task in enumerate(tasks)
    ]


def _without(task: Task, splits: Splits, others: set[bytes]) -> Splits:
    """Return the splits without the training examples that have one of these texts."""
    keep = [digest not in others for digest in digests(splits.train)]
    dropped = len(keep) - sum(keep)
    if not dropped:
        return splits
    if dropped == len(keep):
        raise BadData(
            f"every training example of '{task.name}' is also in another task's test or validation set; leave one "
            f"task out."
        )
    train = splits.train[keep].reset_index(drop=True)
    frames = {"train": train, "validation": splits.validation, "test": splits.test}
    note = (
        f"{dropped:,} of {len(keep):,} training examples of {task.name} were left out: their texts are also in "
        f"the test "
        "or validation set of another task that is learned with it."
    )
    return replace(splits, train=train, notes=(*splits.notes, note), fingerprint=fingerprint(frames))
