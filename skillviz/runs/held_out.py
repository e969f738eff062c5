"""Conditions for fitting the fine-tuned model's temperature: validation examples of its task that it has not seen.

A temperature fitted on other examples makes an unfair comparison. On rows from its training, the model would become
even more confident. On another task's labels, it would have an advantage that the graft does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skillviz.core.comparison import Comparison
from skillviz.core.generation import Generated
from skillviz.core.temperature import COLDEST, HOTTEST, temperature_fit
from skillviz.errors import SkillvizError
from skillviz.json_text import read_object
from skillviz.layout import refuse_another
from skillviz.tasks.leaks import digests
from skillviz.tasks.splits import Splits, load
from skillviz.tasks.task import GENERATION, Task

TRAINED_HERE = "finetune.json"
"""The file, written by skillviz, in the folder of every model that it fine-tuned."""
FEWEST = 10
"""The minimum number of validation examples for a fit."""
MOSTLY = 0.5
"""A validation file with more than this share of training or test texts counts as a copy, not as held out."""

SEEN, PROBABLY_SEEN, TESTED, OTHER_TASK, UNKNOWN_TASK, FEW, ONE_CLASS, AT_END = (
    "seen", "probably seen", "tested", "other task", "unknown task", "few", "one class", "at end",
)  # fmt: skip
ADVICE = "Name a validation file of at least {fewest} examples{classes} that the model has not seen."
WHY: Mapping[str, str] = {
    SEEN: "the fine-tuned model was trained on validation examples, so its validation scores say little, too.",
    PROBABLY_SEEN: "the validation examples are train rows, which the fine-tuned model has probably seen, so its "
    "validation scores say little, too.",
    TESTED: "most validation texts are test texts, and the test set must not choose a temperature.",
    OTHER_TASK: "the model was fine-tuned on other data than this task's.",
    UNKNOWN_TASK: "nothing says that the model was fine-tuned on this task's data.",
    FEW: "there are fewer than {fewest} validation examples.",
    ONE_CLASS: "all validation examples are of one class.",
    AT_END: "its search ended at the end of its range, {coldest:g} to {hottest:g}: the validation examples leave "
    "nothing to fit (no error among them), or the model is sure where it is wrong.",
}
"""The explanation of each reason, stored with a run or an evaluation, for not fitting a temperature."""


class Fit(NamedTuple):
    """The fine-tuned model's temperature, or None and the `reason` (a key of WHY, or empty)."""

    value: float | None
    reason: str = ""


def why_not(reason: str, what: str = "No comparison with temperature scaling", fewest: int = FEWEST) -> str:
    """Return the sentence for a reason of WHY: why `what` is not done, and advice.

    `fewest` is the number of validation examples that a fit needs.
    """
    if not reason:
        return ""
    why = WHY[reason].format(fewest=fewest, coldest=COLDEST, hottest=HOTTEST)
    of_its_own = reason in (OTHER_TASK, UNKNOWN_TASK)
    classes = ", of several classes," if reason == ONE_CLASS else ""
    named = ADVICE.format(fewest=fewest, classes=classes)
    advice = "Score the task that it was fine-tuned on." if of_its_own else named
    return f"{what}: {why} {advice}"


def fitted(logits: Mapping[str, np.ndarray], labels: np.ndarray, has_classes: bool, reason: str = "") -> Fit:
    """Return the fine-tuned model's temperature on these (validation) examples, or None and the reason against it.

    References have no temperature: there are no classes whose confidence it could scale.
    """
    if not len(labels) or isinstance(logits["finetuned"], Generated):
        return Fit(None)
    if reason:
        return Fit(None, reason)
    if len(labels) < FEWEST:
        return Fit(None, FEW)
    if has_classes and len(np.unique(labels)) < 2:
        return Fit(None, ONE_CLASS)
    fit = temperature_fit(logits["finetuned"], labels)
    return Fit(None, AT_END) if fit.at_bound else Fit(fit.value)


def against_fitting(
    folder: Path, task: Task, splits: Splits, *, training: frozenset[bytes], is_own: bool, drawn: Any = None
) -> str:
    """Return the reason of WHY against a temperature on these validation examples; empty if there is none.

    `folder` is the fine-tuned model's. `is_own` means that the task is known to be the pair's, as in a run. Otherwise
    the folder must say so, or the data that a region's or graft's header says it was `drawn` from. `training` are
    digests of the training texts.
    """
    if task.kind == GENERATION or not len(splits.validation):
        return ""
    trained = trained_on(training_record(folder), task, splits)
    if trained.task is Comparison.DIFFERENT:
        return OTHER_TASK
    is_own |= Comparison.SAME in (trained.task, trained_on(drawn, task, splits).task)
    if not is_own:
        return UNKNOWN_TASK
    if splits.validates_on_train:
        if trained.draw is not Comparison.SAME:
            return SEEN if trained.draw is Comparison.DIFFERENT else PROBABLY_SEEN
    elif _shared(splits.validation, training) > MOSTLY:
        return SEEN
    return TESTED if _shared(splits.validation, frozenset(digests(splits.test))) > MOSTLY else ""


class Trained(NamedTuple):
    """The comparison of a model's training data with a task's data, and with the draw of its training rows."""

    task: Comparison
    draw: Comparison


def trained_on(record: Any, task: Task, splits: Splits) -> Trained:
    """Compare a record (`data_record`, finetune.json) with a task's data; UNKNOWN without one or if data changed."""
    unknown = Trained(Comparison.UNKNOWN, Comparison.UNKNOWN)
    if not isinstance(record, Mapping) or not record:
        return unknown
    if record.get("data_fingerprint") == splits.fingerprint:
        return Trained(Comparison.SAME, Comparison.SAME)
    if (record.get("task"), record.get("labels")) != (task.name, list(task.labels)):
        return Trained(Comparison.DIFFERENT, Comparison.UNKNOWN)
    is_alike = (record.get("k_shot"), record.get("data_seed")) == (splits.k_shot, splits.seed)
    draw = Comparison.SAME if is_alike else Comparison.DIFFERENT
    if "tasks" in record:  # several tasks: texts of one were removed from the training rows of the others
        return Trained(Comparison.SAME, draw)
    counts = record.get("examples") or {}
    caps = {f"max_{split}": counts.get(split) or None for split in ("train", "validation", "test")}
    try:  # the same data with other caps have another fingerprint
        again = load(task, k_shot=record.get("k_shot"), seed=record.get("data_seed") or 0, **caps)
    except SkillvizError:
        return unknown
    return Trained(Comparison.SAME, draw) if again.fingerprint == record.get("data_fingerprint") else unknown


def data_record(name: str, labels: tuple[str, ...], fingerprint: str, counts: Mapping[str, int], spec: Any) -> Any:
    """Return the data's entry in the header of a region or graft, with the field names of finetune.json."""
    return {
        "task": name, "labels": list(labels), "k_shot": spec.k_shot, "data_seed": spec.data_seed,
        "examples": dict(counts), "data_fingerprint": fingerprint,
    }  # fmt: skip


def training_record(folder: Path) -> Mapping[str, Any]:
    """Return the training record in a fine-tuned model's folder; empty for a model fine-tuned by other software.

    Raises OtherVersion.
    """
    try:
        record = read_object(folder / TRAINED_HERE)
    except SkillvizError:
        return {}
    refuse_another(record, f"{TRAINED_HERE} in {folder}")
    return record


def _shared(frame: pd.DataFrame, known: frozenset[bytes]) -> float:
    """Return the share of the frame's examples whose texts are in `known`."""
    return float(np.mean([digest in known for digest in digests(frame)]))
