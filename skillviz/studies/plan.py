"""The steps of a study in an order that can be executed, from its file alone: nothing is made, no result is needed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from skillviz.runs.spec import RunSpec
from skillviz.studies.entry import Built, built
from skillviz.studies.finetuned_model import FineTunedSpec
from skillviz.studies.score import ScoreSpec
from skillviz.studies.spec import StudySpec
from skillviz.studies.step import KINDS as KINDS
from skillviz.studies.step import TABLE, Step

Labels = Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """The steps in an order that can be executed; `entries` are all labels of a step's key, one for each entry of the
    study that asks for it (a step's own `entry` is the first of them)."""

    study: StudySpec
    steps: tuple[Step, ...]
    entries: Mapping[str, tuple[dict[str, Any], ...]] = field(repr=False)

    @cached_property
    def by_key(self) -> dict[str, Step]:
        """Key to step."""
        return {step.key: step for step in self.steps}

    def of(self, kind: str, **labels: Any) -> list[Step]:
        """The steps of a kind, of those whose labels are as given."""
        return [s for s in self.steps if s.kind == kind and any(fits(entry, labels) for entry in self.entries[s.key])]

    @property
    def runs(self) -> list[RunSpec]:
        """The specs of all runs, in order."""
        return [step.spec for step in self.steps if isinstance(step.spec, RunSpec)]

    @property
    def scores(self) -> list[ScoreSpec]:
        """The specs of all scores, in order."""
        return [step.spec for step in self.steps if isinstance(step.spec, ScoreSpec)]

    @property
    def finetuned(self) -> list[FineTunedSpec]:
        """The specs of all fine-tuned models, in order."""
        return [step.spec for step in self.steps if isinstance(step.spec, FineTunedSpec)]

    @property
    def key(self) -> str:
        """sha256 of the keys of all steps: equal for studies that ask for the same."""
        return hashlib.sha256("\n".join(sorted(step.key for step in self.steps)).encode()).hexdigest()

    def needed_by(self, key: str) -> Iterator[Step]:
        """The steps that need this one, directly or not."""
        lost = {key}
        for step in self.steps:
            if lost & set(step.needs):
                lost.add(step.key)
                yield step


def plan(study: StudySpec) -> Plan:
    """The plan of a study; raises BadInput with the number of the entry that is wrong."""
    found = built(study)
    steps = _with_bases(_ordered(found.steps))
    table = Step(TABLE, TABLE, "make the tables", study.experiment or study.name, tuple(s.key for s in steps), {})
    return Plan(study, (*steps, table), {**_entries(found), TABLE: ({},)})


def steps_of(study: StudySpec) -> list[Step]:
    """The steps but for the tables, in the order of the entries."""
    return built(study).steps


def fits(entry: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Whether a step's labels are as asked for; a task is asked for as it was written or by its name."""
    return all(
        name in entry and (entry[name] == value or entry.get(f"{name}_name", ()) == value)
        for name, value in labels.items()
    )


def _entries(found: Built) -> dict[str, tuple[dict[str, Any], ...]]:
    return {key: tuple(labels) for key, labels in found.labels.items()}


def _with_bases(steps: list[Step]) -> list[Step]:
    """Titles name the base where the study has several, whose steps would else read alike."""
    if len({step.spec.base for step in steps if not isinstance(step.spec, str)}) < 2:
        return steps
    return [
        step if isinstance(step.spec, str) else replace(step, title=f"{step.title} on {Path(step.spec.base).name}")
        for step in steps
    ]


def _ordered(steps: list[Step]) -> list[Step]:
    """Each step after what it needs, the steps of one pair together as far as that allows."""
    waiting, done, found = list(steps), set[str](), list[Step]()
    known = {step.key for step in steps}
    last: Any = None
    while waiting:
        ready = [s for s in waiting if all(need in done or need not in known for need in s.needs)]
        step = next((s for s in ready if s.pair is not None and s.pair == last), ready[0])
        waiting.remove(step)
        done.add(step.key)
        found.append(step)
        last = step.pair
    return found
