"""A task's examples made ready for training: drawn, encoded once, and what has to be left out left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from skillviz.core.encoded import Encoded
from skillviz.errors import BadData
from skillviz.models.finetune.trainer import Trainee
from skillviz.models.finetune.training import Lesson, evaluate
from skillviz.tasks.encode import encode
from skillviz.tasks.splits import Splits, fingerprint, load
from skillviz.tasks.task import Task


@dataclass(frozen=True)
class DataPlan:
    """Which of a task's examples are used."""

    k_shot: int | None = None
    data_seed: int = 0
    max_train: int | None = None
    max_validation: int | None = None
    max_test: int | None = None
    evaluate_test: bool = False

    def load(self, task: Task) -> Splits:
        """The splits of the task by this plan."""
        caps = {"max_train": self.max_train, "max_validation": self.max_validation, "max_test": self.max_test}
        return load(task, k_shot=self.k_shot, seed=self.data_seed, **caps)

    def whole(self, task: Task) -> Splits:
        """The same draw without caps."""
        return load(task, k_shot=self.k_shot, seed=self.data_seed)


class Material:
    """The splits of one task, encoded when first asked for."""

    def __init__(self, task: Task, splits: Splits, plan: DataPlan, readout: str) -> None:
        self.task, self.splits, self.plan, self.readout = task, splits, plan, readout
        self._encoded: dict[str, Encoded] = {}

    def encoded(self, split: str, tokenizer: Any) -> Encoded:
        """The split's examples; all trainees of one base have the same tokenizer."""
        if split not in self._encoded:
            self._encoded[split] = encode(self.task, getattr(self.splits, split), tokenizer, self.readout)
        return self._encoded[split]

    def lesson(self, tokenizer: Any) -> Lesson:
        """What training needs of it."""
        train, validation = (self.encoded(split, tokenizer) for split in ("train", "validation"))
        return Lesson(train, validation, self.task.metric, self.task.positive)

    def scores(self, trainee: Trainee, split: str = "validation") -> dict[str, float]:
        """The metrics of the trainee as it stands."""
        encoded = self.encoded(split, trainee.tokenizer)
        return evaluate(trainee, encoded, self.task.metric, self.task.positive)

    def all_scores(self, trainee: Trainee) -> dict[str, dict[str, float]]:
        """By split: validation, and test where the plan asks for it."""
        splits = ("validation", "test") if self.plan.evaluate_test else ("validation",)
        return {split: self.scores(trainee, split) for split in splits}

    @property
    def counts(self) -> dict[str, int]:
        """Examples by split."""
        return {name: len(getattr(self.splits, name)) for name in ("train", "validation", "test")}


def materials(tasks: Sequence[Task], plan: DataPlan, readout: str) -> list[Material]:
    """The tasks' examples, each training set without the texts of another's test or validation set.

    All of the other's examples count, caps aside. What was left out is a note of the splits. Raises BadData where
    nothing is left to train on.
    """
    drawn = [plan.load(task) for task in tasks]
    whole = [plan.whole(task) for task in tasks]
    held = [{*_keys(splits.validation), *_keys(splits.test)} for splits in whole]
    found = []
    for i, (task, splits) in enumerate(zip(tasks, drawn, strict=True)):
        others = set().union(*(keys for j, keys in enumerate(held) if j != i))
        found.append(Material(task, _without(task, splits, others), plan, readout))
    return found


def _without(task: Task, splits: Splits, others: set[tuple[str, ...]]) -> Splits:
    keep = [key not in others for key in _keys(splits.train)]
    dropped = len(keep) - sum(keep)
    if not dropped:
        return splits
    if dropped == len(keep):
        raise BadData(
            f"every training example of '{task.name}' stands in another task's test or validation set; leave one out."
        )
    train = splits.train[keep].reset_index(drop=True)
    frames = {"train": train, "validation": splits.validation, "test": splits.test}
    note = (
        f"{dropped:,} of {len(keep):,} training examples of {task.name} were left out: their texts stand in the test "
        "or validation set of another task that is learned with it."
    )
    return replace(splits, train=train, notes=(*splits.notes, note), fingerprint=fingerprint(frames))


def _keys(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """Each example's texts, letter case and spaces aside."""
    columns = [frame[name].tolist() for name in ("text_a", "text_b") if name in frame]
    return [tuple(" ".join(str(text).casefold().split()) for text in row) for row in zip(*columns, strict=True)]
