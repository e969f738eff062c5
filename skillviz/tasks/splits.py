"""The examples of a task: train, validation and test, sampled by seed, with notes on the sampling."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skillviz.errors import BadData, BadInput
from skillviz.tasks.leaks import digests
from skillviz.tasks.source import OPTIONS, REFERENCE, Source, opened
from skillviz.tasks.task import SPLITS, Files, Task


@dataclass(frozen=True)
class Splits:
    """Frames with the columns example_id, text_a, text_b (pairs only), options (if examples have their own), reference
    (if a text is to be generated) and label (index into task.labels).

    `example_id` is "<split of the source>-<row in it, from 0>", so that a validation row drawn from train keeps the id
    of its train row. `fingerprint` is the sha256 over all ids, texts and labels; `k_shot` and `seed` are the settings
    of the draw.
    """

    train: pd.DataFrame
    validation: pd.DataFrame
    test: pd.DataFrame
    notes: tuple[str, ...]
    fingerprint: str
    k_shot: int | None = None
    seed: int = 0

    def __repr__(self) -> str:
        return f"Splits(train {len(self.train):,}, validation {len(self.validation):,}, test {len(self.test):,})"

    @property
    def validates_on_train(self) -> bool:
        """True if the validation examples were drawn from the train split."""
        return bool(len(self.validation)) and bool(self.validation["example_id"].str.startswith("train-").all())

    @property
    def words(self) -> float:
        """Words of a training example: the mean over 200 examples spread over the file, counting its texts,
        reference and longest option."""
        texts = [name for name in ("text_a", "text_b", REFERENCE) if name in self.train.columns]
        counts = [self._some[name].map(_words_of) for name in texts]
        if OPTIONS in self.train:  # only the longest option: it sets the length of an example's sequences
            counts.append(self._some[OPTIONS].map(lambda options: max(map(_words_of, options))))
        return float(sum(count.mean() for count in counts))

    @property
    def _some(self) -> pd.DataFrame:
        """Training examples at even steps, because a file may be sorted."""
        return self.train.iloc[:: max(1, len(self.train) // 200)]

    @property
    def options(self) -> float:
        """Options of a training example: the mean over 200 examples spread over the file; 1 for a task with classes."""
        return float(self._some[OPTIONS].map(len).mean()) if OPTIONS in self.train else 1.0


def load(
    task: Task,
    *,
    k_shot: int | None = None,
    seed: int = 0,
    max_train: int | None = None,
    max_validation: int | None = None,
    max_test: int | None = None,
) -> Splits:
    """The task's splits; raises BadData or BadInput if they cannot be read or drawn.

    With `k_shot`, k examples per class (in all, if examples have their own options) for training and as many for
    validation, both from the train split; otherwise the task's own validation split, or a tenth of train. A cap draws
    rows by the seed and keeps their order.
    """
    task.refuse_without_training()
    caps = {"train": max_train, "validation": max_validation, "test": max_test}
    _check_counts(k_shot, seed, caps)
    sources = opened(task, tuple(s for s in SPLITS if k_shot is None or s != "validation"))
    sources, said = without_leaks(task, sources)
    chosen, notes = _chosen(task, sources, k_shot, seed)
    notes += said
    frames = {}
    for split, (source, rows) in chosen.items():
        drawn = capped(rows, caps[split], seed)
        if len(drawn) < len(rows):
            notes.append(f"{split}: {len(drawn):,} of {len(rows):,} rows, drawn with seed {seed}.")
        frames[split] = source.frame(task, drawn)
    notes += [note for split, frame in frames.items() for note in class_notes(task, split, frame["label"])]
    return Splits(**frames, notes=tuple(notes), fingerprint=fingerprint(frames), k_shot=k_shot, seed=seed)


def without_leaks(task: Task, sources: dict[str, Source]) -> tuple[dict[str, Source], list[str]]:
    """The sources of a task with several files in a split, without training rows whose text is also in another split.

    Each file may be free of leaks by itself and still repeat a text of another's test rows. With a note if rows are
    left out; a task with one file for each split is returned unchanged.
    """
    if not isinstance(task.data, Files) or not task.data.is_merged or "train" not in sources:
        return sources, []

    def texts(split: str) -> list[bytes]:
        return digests(sources[split].frame(task, np.arange(len(sources[split].rows))))

    others = {text for split in sources if split != "train" for text in texts(split)}
    train, kept = sources["train"], np.array([text not in others for text in texts("train")], dtype=bool)
    if not kept.any():
        raise BadData(f"task '{task.name}': every training text is also in its {' or '.join(list(sources)[1:])} split.")
    left = int(len(kept) - kept.sum())
    note = f"train: {left:,} of {len(kept):,} rows left out: their text is also in a validation or test row."
    return {**sources, "train": replace(train, rows=train.rows[kept], labels=train.labels[kept])}, [
        note
    ] if left else []


def load_test(task: Task, *, seed: int = 0, max_test: int | None = None) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The test frame alone, with notes: for data that a model was not fine-tuned on; the train split is not read."""
    _check_counts(None, seed, {"test": max_test})
    source = opened(task, ("test",))["test"]
    drawn = capped(np.arange(len(source.rows)), max_test, seed)
    notes = _source_notes(task, {"test": source})
    if len(drawn) < len(source.rows):
        notes.append(f"test: {len(drawn):,} of {len(source.rows):,} rows, drawn with seed {seed}.")
    return source.frame(task, drawn), tuple(notes)


def load_to_score(task: Task, **sampling: Any) -> Splits:
    """The splits as in `load`; for a task with test examples only, its test frame and two empty frames."""
    if task.has_training:
        return load(task, **sampling)
    seed = sampling.get("seed", 0)
    test, notes = load_test(task, seed=seed, max_test=sampling.get("max_test"))
    frames = {"train": test.iloc[:0], "validation": test.iloc[:0], "test": test}
    return Splits(**frames, notes=notes, fingerprint=fingerprint(frames), k_shot=None, seed=seed)


def fingerprint(frames: dict[str, pd.DataFrame]) -> str:
    """sha256 over the ids, texts and labels of the frames, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(frames):
        columns = [frames[name][column].tolist() for column in frames[name].columns]
        digest.update(json.dumps([name, list(frames[name].columns), *columns], ensure_ascii=True).encode())
    return digest.hexdigest()


def _chosen(
    task: Task, sources: dict[str, Source], k: int | None, seed: int
) -> tuple[dict[str, tuple[Source, np.ndarray]], list[str]]:
    """Split -> (source, positions in its rows), and the notes."""
    train, test, notes = sources["train"], sources["test"], _source_notes(task, sources)
    every = {split: np.arange(len(source.rows)) for split, source in sources.items()}
    if k is not None:
        # an option's position is not a class: it does not depend on the example's content
        classes = train.labels if task.has_classes else np.zeros_like(train.labels)
        rows, validation_rows = k_shot_rows(classes, k, seed)
        notes.append(_k_shot_note(task, train.labels[rows], train.labels[validation_rows], k, seed))
        if len(validation_rows) == 0:
            raise BadData(f"task '{task.name}': train has one row a class, so none is left for validation.")
    elif "validation" in sources:
        rows, validation_rows = every["train"], every["validation"]
    else:
        if len(train.rows) < 2:
            raise BadData(f"{train.shown} has one row; with no validation split, at least 2 are needed.")
        rows, validation_rows = tenth(len(train.rows), seed)
        notes.append(
            f"validation: {len(validation_rows):,} of the {len(train.rows):,} train rows, drawn with seed {seed}, "
            "because the task has no validation split."
        )
    source = sources.get("validation", train)
    return {"train": (train, rows), "validation": (source, validation_rows), "test": (test, every["test"])}, notes


def _k_shot_note(task: Task, train: np.ndarray, validation: np.ndarray, k: int, seed: int) -> str:
    if not task.has_classes:
        return (
            f"{k}-shot, seed {seed}, both out of the train split: train {len(train):,}, validation {len(validation):,} "
            "examples in all, as the task has no classes."
        )

    def counted(labels: np.ndarray) -> str:
        counts = np.bincount(labels, minlength=len(task.labels))
        return ", ".join(f"{name} {count:,}" for name, count in zip(task.labels, counts, strict=True))

    short = min(np.bincount(train, minlength=len(task.labels)).min(), k) < k
    short |= np.bincount(validation, minlength=len(task.labels)).min() < k
    why = "; classes with too few rows give fewer" if short else ""
    return (
        f"{k}-shot, seed {seed}, both out of the train split: train {len(train):,} ({counted(train)}), "
        f"validation {len(validation):,} ({counted(validation)}){why}."
    )


def _source_notes(task: Task, sources: dict[str, Source]) -> list[str]:
    """Notes on the sources: the interpretation of files and class names, and the rows that the task leaves out."""
    understood = dict.fromkeys(note for source in sources.values() for note in source.notes)
    names = ", ".join(f"'{name}'" for name in task.drop)
    dropped = [f"{s}: {o.dropped:,} rows with the label {names} left out." for s, o in sources.items() if o.dropped]
    return [*understood, *dropped]


def class_notes(task: Task, split: str, labels: pd.Series) -> list[str]:
    """A sentence if a split has only one class or lacks some: the limits of its scores."""
    present = set(labels)
    absent = [f"'{name}'" for number, name in enumerate(task.labels) if number not in present]
    if not task.has_classes or not absent or not present or (split == "validation" and len(present) > 1):
        return []
    if len(present) > 1:
        return [f"{split} has no row with the label {', '.join(absent)}."]
    (only,) = present
    have = f"all {len(labels):,} rows have" if len(labels) > 1 else "its only row has"
    first = f"{split}: {have} the label '{task.labels[only]}'"
    if split == "train":
        return [f"{first}, so training and search see no other class."]
    return [
        f"{first}. Accuracy then says only how often a model predicts it, "
        "calibration says nothing of other classes, and F1 is not measured. Add rows of the other classes."
    ]


def _words_of(text: object) -> int:
    return len(str(text).split())


def _check_counts(k: int | None, seed: int, caps: dict[str, int | None]) -> None:
    named = {"k_shot": k} | {f"max_{split}": most for split, most in caps.items()}
    for name, value in named.items():
        if value is not None and value < 1:
            raise BadInput(f"{name} is {value}; it must be 1 or more.")
    if seed < 0:
        raise BadInput(f"the data seed is {seed}; it must be 0 or more.")


# Second entry of the generator's seed, so that the draws of one seed are independent of one another.
_K_SHOT, _TENTH, _CAP = 0, 1, 2


def k_shot_rows(labels: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of (train, validation), each sorted and disjoint: up to k examples per class in each.

    The whole set is shuffled by the seed; of a class with m examples the first min(k, 0.8 m) are train (at least one),
    the next min(k, m - train) validation (PAPER section 8, the paper's scheme with our rule for small classes).
    """
    order = np.random.default_rng([seed, _K_SHOT]).permutation(len(labels))
    train, validation = [], []
    for label in np.unique(labels):
        rows = order[labels[order] == label]
        first = min(k, max(1, len(rows) * 4 // 5))
        train.append(rows[:first])
        validation.append(rows[first : first + k])
    return _joined(train), _joined(validation)


def tenth(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of (the rest, a tenth) of n rows, each sorted; the tenth has at least one row."""
    order = np.random.default_rng([seed, _TENTH]).permutation(n)
    cut = max(1, n // 10)
    return np.sort(order[cut:]), np.sort(order[:cut])


def capped(chosen: np.ndarray, most: int | None, seed: int) -> np.ndarray:
    """`chosen` itself, or `most` of them in their order, drawn by the seed."""
    if most is None or len(chosen) <= most:
        return chosen
    drawn = np.random.default_rng([seed, _CAP]).permutation(len(chosen))[:most]
    return chosen[np.sort(drawn)]


def sampled(frame: pd.DataFrame, most: int | None, seed: int = 0) -> pd.DataFrame:
    """`most` rows of the frame in their order, drawn by the seed; all rows if there are no more."""
    return frame.iloc[capped(np.arange(len(frame)), most, seed)].reset_index(drop=True)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.sort(np.concatenate(parts)).astype(np.int64)
