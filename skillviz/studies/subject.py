"""What a study is about, from its file alone: bases, readouts, task files, and the models that are called fine-tuned.

Torch-free. Rows of two studies may stand in one table where they are about the same.
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

PLAIN = (None, SGD)  # recipes of what is called the fine-tuned model
CAPS = ("max_train", "max_validation", "max_test")  # of an entry, and of its models where they name none of their own


@dataclass(frozen=True)
class Subject:
    """`tasks` is the file of each task by name, those that models are only scored on too; `models` tells by task how
    its fine-tuned model came about: where it lies, or how it was trained, whatever the seeds."""

    bases: frozenset[str]
    readouts: frozenset[str]
    tasks: Mapping[str, str]
    models: Mapping[str, frozenset[str]]

    def goes_with(self, other: Subject) -> bool:
        """Whether both are about one base and one readout, and mean the same by a task's name and its model."""
        same = self.bases == other.bases and self.readouts == other.readouts and len(self.bases) == 1
        return same and _agree(self.tasks, other.tasks) and _agree(self.models, other.models)

    def of(self, base: str) -> Subject:
        """The same of one of its bases."""
        return replace(self, bases=frozenset([place(base)]))

    def with_tasks_of(self, other: Subject) -> Subject:
        """The same with the tasks and models of a study that goes with it."""
        return replace(self, tasks={**other.tasks, **self.tasks}, models={**other.models, **self.models})


def subject(study: StudySpec) -> Subject:
    """What the study is about; tasks whose files cannot be read go by the name that they are asked for with."""
    at, called = cache(place), cache(_name)  # of the same few texts in every entry
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
    """One text for a file or folder however it was written; what is none, as a name on the Hub, stands for itself."""
    path = located(text)
    return str(path.resolve()) if path.exists() else text


def bases_of(scores: pd.DataFrame) -> list[str]:
    """The base models in a study's scores, as it names them."""
    return list(dict.fromkeys(scores["base"])) if len(scores) else []


def rows_of_base(scores: pd.DataFrame, base: str) -> pd.DataFrame:
    """The rows of one base, however each study names it; `base` is then as given."""
    if scores.empty:
        return scores
    same = {name for name in bases_of(scores) if place(name) == place(base)}
    return scores[scores["base"].isin(same)].assign(base=base)


def _files(values: Mapping[str, Any]) -> Iterator[str]:
    """The tasks that an entry names: trained on, scored on too, and those of the region it takes."""
    for name in ("task", "tasks", "also", "others"):
        yield from _listed(values.get(name))
    if isinstance(values.get("region"), dict):
        yield from _files(values["region"])


def _trained(values: Mapping[str, Any]) -> str:
    """How an entry's fine-tuned model is trained; empty where another recipe is meant."""
    if not any(recipe in PLAIN for recipe in _listed(values.get("recipe")) or PLAIN):
        return ""
    tuning = values.get("finetune")
    fields = {str(name): value for name, value in tuning.items() if name != "seed"} if isinstance(tuning, dict) else {}
    how = {name: values[name] for name in CAPS if values.get(name) is not None} | fields
    return json.dumps(how, sort_keys=True, default=str)


def _name(task: str) -> str:
    try:
        return task_name(task)
    except BadInput:  # said when the study is checked
        return task


def _listed(value: Any) -> list[str]:
    """One value or several as a list of texts."""
    return [str(one) for one in listed(value) if one not in (None, "")]


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one[name] == other[name] for name in one.keys() & other.keys())
