"""The time left for a study: the mean seconds of its finished steps times the number of missing ones.

Before a step of a kind is finished, only the number of its steps is known; no time is predicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import mean

import pandas as pd

from skillviz.core.formats import NOT_MEASURED, counted
from skillviz.core.formats import time_left as left_words
from skillviz.runs.artifact import FINETUNE, LOCALIZE, SCORE
from skillviz.runs.store import Store
from skillviz.studies.federated import FEDERATED
from skillviz.studies.plan import StudyPlan, study_plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.status import Snapshot
from skillviz.studies.step import TABLE, StudyStep

NOUNS = {FINETUNE: "model", LOCALIZE: "run", SCORE: "score", FEDERATED: "federation"}


@dataclass
class StudyPace:
    """The measured seconds of finished steps, with their kind and their localizer or recipe.

    The tables are not counted: they take little time beside the other steps.
    """

    measured: list[tuple[str, str, float]] = field(default_factory=list)

    def add(self, step: StudyStep, seconds: float | None) -> None:
        """Add a finished step."""
        if seconds and step.kind != TABLE:
            self.measured.append((*_like(step), seconds))

    def left(self, steps: Iterable[StudyStep], workers: int = 1) -> float | None:
        """Return the seconds that these steps take, shared by some workers; None while steps of a kind are unmeasured.

        A step takes the mean of the finished steps with its localizer or recipe; if there are none, of its kind.
        """
        each = [self._seconds(step) for step in steps if step.kind != TABLE]
        known = [seconds for seconds in each if seconds is not None]
        if not known or len(known) < len(each):
            return None
        return max(sum(known) / min(max(1, workers), len(known)), *known)

    def words(self, steps: Sequence[StudyStep], workers: int = 1) -> str:
        """Return `about 4 min left, measured on 3 finished steps`, or that nothing is measured yet."""
        left = self.left(steps, workers)
        if left is None:
            return NOT_MEASURED
        return f"{left_words(left)}, measured on {counted(len(self.measured), 'finished step')}"

    def _seconds(self, step: StudyStep) -> float | None:
        kind, way = _like(step)
        same = [seconds for k, w, seconds in self.measured if (k, w) == (kind, way)]
        same = same or [seconds for k, _, seconds in self.measured if k == kind]
        return mean(same) if same else None


def _like(step: StudyStep) -> tuple[str, str]:
    """Return the kind of a step, and its localizer or recipe."""
    return step.kind, str(getattr(step.spec, {LOCALIZE: "localizer", FINETUNE: "recipe"}.get(step.kind, ""), ""))


def measured(at: Snapshot) -> StudyPace:
    """Return the pace of the steps that are finished in a store."""
    pace = StudyPace()
    for step in at.plan.steps:
        if at.is_there(step):
            pace.add(step, at.seconds(step))
    return pace


@dataclass(frozen=True)
class Preview:
    """A plan, its number of missing steps, their time in words, and the state of every step."""

    plan: StudyPlan
    left: int
    time: str
    steps: pd.DataFrame


def preview(study: StudySpec, store: Store, workers: int = 1) -> Preview:
    """Return a preview of a study, computed from files alone; raises a SkillvizError if the study's file is wrong."""
    at = Snapshot(study_plan(study), store)
    missing = [step for step in at.plan.steps if not at.is_there(step)]
    rows = [{"kind": step.kind, "step": step.title, "state": at.state(step)} for step in at.plan.steps]
    steps = pd.DataFrame(rows, columns=["kind", "step", "state"])
    return Preview(at.plan, len(missing), measured(at).words(missing, workers), steps)


def time_left(at: Snapshot, workers: int) -> str:
    """Return `4 of 6 steps to do (2 runs, the tables); about 3 min left, ...`, for parallel processes."""
    left = [step for step in at.plan.steps if not at.is_there(step)]
    if not left:
        return "nothing is left"
    side = f", with {workers} processes in parallel" if workers > 1 else ""
    todo = f"{len(left)} of {len(at.plan.steps)} steps to do ({kinds(left)})"
    return f"{todo}; {measured(at).words(left, workers)}{side}"


def kinds(steps: Sequence[StudyStep]) -> str:
    """Return `1 model to fine-tune, 2 runs, 4 scores, the tables`, without the kinds that no step has."""
    counts = {kind: sum(step.kind == kind for step in steps) for kind in NOUNS}
    words = [f"{counted(n, NOUNS[kind])}{' to fine-tune' * (kind == FINETUNE)}" for kind, n in counts.items() if n]
    return ", ".join([*words, *(["the tables"] if any(step.kind == TABLE for step in steps) else [])])
