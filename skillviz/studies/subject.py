"""Determine a study's subject from its file alone: bases, readouts, task files, and fine-tuned models.

Torch-free. Rows of two studies may be in one table if the studies have the same subject.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pandas as pd

from skillviz.errors import BadInput
from skillviz.models.finetune.recipes import SGD
from skillviz.studies.finetuned_model import task_name
from skillviz.studies.spec import StudySpec, listed, merged
from skillviz.tasks.project import located

PLAIN = (None, SGD)  # recipes of the model called the fine-tuned model
CAPS = ("max_train", "max_validation", "max_test")  # of an entry, and of its models if they have none of their own


@dataclass(frozen=True)
class Subject:
    """The subject of a study.

    `tasks` has the file of each task by name, including tasks used only for scoring. `models` has the origin of each
    task's fine-tuned model: its path, or its training settings without seeds.
    """

    bases: frozenset[str]
    readouts: frozenset[str]
    tasks: Mapping[str, str]
    models: Mapping[str, frozenset[str]]

    def goes_with(self, other: Subject) -> bool:
        """True if both have the same single base, the same readout, and no conflict in tasks and models by name."""
        same = self.bases == other.bases and self.readouts == other.readouts and len(self.bases) == 1
        return same and _agree(self.tasks, other.tasks) and _agree(self.models, other.models)

    def of(self, base: str) -> Subject:
        """Return the same subject for one of its bases."""
        return replace(self, bases=frozenset([place(base)]))

    def with_tasks_of(self, other: Subject) -> Subject:
        """Return the same subject with the tasks and models of a study that goes with it."""
        return replace(self, tasks={**other.tasks, **self.tasks}, models={**other.models, **self.models})


def subject(study: StudySpec) -> Subject:
    """Return the study's subject; a task whose file cannot be read has the name used in the study."""
    at, called = cache(place), cache(_name)  # cached because every entry has the same few texts
    bases, readouts, files = set[str](), set[str](), dict[str, None]()
    models: dict[str, set[str]] = {}
    for entry in study.runs:
        values = merged(study.defaults, entry)
        bases |= {at(base) for base in _listed(values.get("base"))}
        readouts |= set(_listed(values.get("readout")))
        files |= dict.fromkeys(_files(values))
        plain = at(str(values["finetuned"])) if values.get("finetuned") else _trained(values)
        if plain:
            for task in (*_listed(values.get("task")), *_listed(values.get("tasks"))):
                models.setdefault(called(task), set()).add(plain)
    tasks = {called(file): at(file) for file in files}
    return Subject(frozenset(bases), frozenset(readouts), tasks, {name: frozenset(how) for name, how in models.items()})


def place(text: str) -> str:
    """Return one text for a file or folder, independent of its spelling; other names, as on the Hub, are unchanged."""
    path = located(text)
    return str(path.resolve()) if path.exists() else text


def bases_of(scores: pd.DataFrame) -> list[str]:
    """Return the base models in a study's scores, as named there."""
    return list(dict.fromkeys(scores["base"])) if len(scores) else []


def rows_of_base(scores: pd.DataFrame, base: str) -> pd.DataFrame:
    """Return the rows of one base, independent of each study's spelling; their `base` is then as given."""
    if scores.empty:
        return scores
    same = {name for name in bases_of(scores) if place(name) == place(base)}
    return scores[scores["base"].isin(same)].assign(base=base)


def _files(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tasks that an entry names for training, for scoring, and in its region."""
    for name in ("task", "tasks", "also", "others"):
        yield from _listed(values.get(name))
    if isinstance(values.get("region"), dict):
        yield from _files(values["region"])


def _trained(values: Mapping[str, Any]) -> str:
    """Return the training settings of an entry's fine-tuned model; empty for other recipes."""
    if not any(recipe in PLAIN for recipe in _listed(values.get("recipe")) or PLAIN):
        return ""
    tuning = values.get("finetune")
    fields = {str(name): value for name, value in tuning.items() if name != "seed"} if isinstance(tuning, dict) else {}
    how = {name: values[name] for name in CAPS if values.get(name) is not None} | fields
    return json.dumps(how, sort_keys=True, default=str)


def _name(task: str) -> str:
    try:
        return task_name(task)
    except BadInput:  # the study's check reports the error
        return task


def _listed(value: Any) -> list[str]:
    """Return one value or several as a list of texts."""
    return [str(one) for one in listed(value) if one not in (None, "")]


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one[name] == other[name] for name in one.keys() & other.keys())
