"""Check a study before anything is computed: specs, tasks, bases, sizes, regions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from skillviz.errors import BadInput, RunNotFound, SkillvizError
from skillviz.models.checkpoint import read_info
from skillviz.models.fetch import resolve
from skillviz.models.heads import missing_head, own_head_of_other_kind, supported
from skillviz.models.preflight import Preflight, preflight
from skillviz.runs.store import Library, library
from skillviz.studies.paper.experiments import experiment
from skillviz.studies.plan import StudyPlan
from skillviz.studies.status import Snapshot
from skillviz.studies.step import TABLE, StudyStep
from skillviz.tasks import registry
from skillviz.tasks.project import FINETUNED_VARIABLE, finetuned_root
from skillviz.tasks.task import Task


def check(at: Snapshot) -> None:
    """Raise the first problem of the missing steps, with the number of its entry in the study.

    This reads headers and task files, but no weights and no data. A model that the study makes is checked by its base.
    """
    finetuned_root()
    checker = _Checker(at.plan, library(at.store.root))
    if at.plan.study.experiment is not None:
        experiment(at.plan.study.experiment)  # raises if the name is unknown
    for step in at.plan.steps:
        if step.kind != TABLE and not at.is_there(step):
            with _entry(at.plan, step):
                checker.step(step)


@dataclass
class _Checker:
    """A cache of models' headers and tasks, so that each is read once."""

    plan: StudyPlan
    library: Library
    tasks: dict[str, Task] = field(default_factory=dict)
    pairs: dict[Any, Preflight] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.made = {spec.name() for spec in self.plan.finetuned}

    def step(self, step: StudyStep) -> None:
        """Raise the first problem of a step."""
        step.artifact.check(self)
        for key in step.artifact.regions:
            self.region(key)

    def pair(self, base: str, finetuned: str | None, task: str, readout: str | None) -> Preflight:
        """Return the headers of a pair, or of the base alone if the study makes the fine-tuned model."""
        first, _, rest = (finetuned or "").partition("/")
        if first == f"${{{FINETUNED_VARIABLE}}}" and rest.split("/")[0] in self.made:
            finetuned = None
        key = base, finetuned, task, readout
        if key not in self.pairs:
            read = self.task(task)
            if finetuned is None:
                _refuse_unasked(base, read, readout or "head")
                self.pairs[key] = preflight(base, base, read, readout)
            else:
                self.pairs[key] = preflight(base, finetuned, read, readout)
                self.pairs[key].raise_first()
        return self.pairs[key]

    def task(self, name: str) -> Task:
        """Return a task whose files exist."""
        if name not in self.tasks:
            self.tasks[name] = registry.task(name)
        return self.tasks[name]

    def region(self, key: str) -> None:
        """Raise unless the region that is trained or scored belongs to a run of this study or to a finished run."""
        if key in self.plan.by_key:
            return
        try:
            self.library.newest(key)
        except RunNotFound as error:
            raise RunNotFound(
                f"the region 'key:{key[:12]}...' is of a run that is neither in this study nor finished; add the run "
                "to the study."
            ) from error


def _refuse_unasked(base: str, task: Task, readout: str) -> None:
    """Raise if the base cannot be fine-tuned with this readout."""
    task.refuse_readout(readout)
    info = read_info(resolve(base))
    if not supported(info.model_type, readout):
        raise BadInput(f"the base '{base}' ({info.model_type}) has no {readout} readout; choose another one.")
    if readout == "head" and (kind := own_head_of_other_kind(info, len(task.labels))):
        raise BadInput(kind)
    if readout != "head":
        task.wording(readout)
        if lost := missing_head(info, readout):
            raise BadInput(
                f"the base '{base}' has no '{lost[0]}', which the {readout} readout needs; choose readout: head, or a "
                "base with its language-model head."
            )


@contextmanager
def _entry(plan: StudyPlan, step: StudyStep) -> Iterator[None]:
    """Add the study's entry to the message of an error."""
    try:
        yield
    except SkillvizError as error:
        place = f"study '{plan.study.name}', entry {step.entry.get('entry', '?')} of runs ({step.title})"
        raise type(error)(f"{place}: {error.args[0]}") from error
