"""What a study would do if it were started now, told from files alone: its plan, what is left, how long that takes."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from skillviz.runs.store import Store
from skillviz.studies.estimate import estimates
from skillviz.studies.plan import Plan, plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.status import Snapshot


@dataclass(frozen=True)
class Outlook:
    """A plan, how many of its steps are left, the time they take in words and in seconds, and every step."""

    plan: Plan
    left: int
    minutes: str
    seconds: float
    steps: pd.DataFrame


def outlook(study: StudySpec, store: Store, workers: int = 1) -> Outlook:
    """The outlook of a study; raises a SkillvizError where its file is wrong."""
    at = Snapshot(plan(study), store)
    told = estimates(at)
    missing = [step for step in at.plan.steps if not at.is_there(step)]
    rows = [
        {"kind": step.kind, "step": step.title, "state": at.state(step), "seconds": round(told.steps[step.key], 1)}
        for step in at.plan.steps
    ]
    steps = pd.DataFrame(rows, columns=["kind", "step", "state", "seconds"])
    return Outlook(at.plan, len(missing), told.words(missing, workers), told.left(missing, workers), steps)
