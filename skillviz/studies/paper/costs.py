"""Estimate the core-hours of the paper's experiments at a scale, in the order in which `reproduce all` runs them.

A core-hour is one processor core for an hour. Finished steps count as measured. The rest is estimated from headers and
row counts, at the pace of the finished steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skillviz.runs.artifact import FINETUNE, LOCALIZE, SCORE
from skillviz.runs.store import Store
from skillviz.studies.cores import cores
from skillviz.studies.estimate import PlanClock
from skillviz.studies.paper.experiments import EXPERIMENTS, experiment
from skillviz.studies.paper.scales import Scale
from skillviz.studies.plan import plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.status import Snapshot
from skillviz.studies.step import TABLE, Step

ORDER = (
    "localizers", "table2", "figure2", "figure9", "figure10", "figure6", "figure15", "figure4", "sensitivity",
    "figure7", "table4", "figure8", "table1", "table3", "figure3", "figure5", "table8",
)  # fmt: skip
"""The order of the experiments: the most informative first, because the last ones are lost if time runs out."""
CORES_OF_THE_RATE = 2
"""The number of cores on which the assumed speed of estimates (runs/estimate.py) was measured."""


@dataclass(frozen=True)
class ExperimentCost:
    """The steps of an experiment that no earlier one has: the numbers left by kind, and core-hours spent and left."""

    models: int
    runs: int
    scores: int
    spent: float
    left: float


def core_hours(name: str, scale: Scale) -> float:
    """Return the estimated core-hours of one experiment by itself, with no step finished."""
    clock = PlanClock(Snapshot(plan(StudySpec(**experiment(name).build(scale))), Store(Path())), "cpu")
    return CORES_OF_THE_RATE * sum(map(clock.work, clock.plan.steps)) / 3600


def costs(scale: Scale, store: Store) -> dict[str, ExperimentCost]:
    """Return the cost of every experiment in ORDER; a step that several share counts in the first of them."""
    studies = {name: StudySpec(**EXPERIMENTS[name].build(scale)) for name in ORDER}
    own: dict[str, list[Step]] = {}
    work: dict[str, float] = {}  # seconds at the assumed speed
    measured: dict[str, float] = {}  # core-seconds
    for name, study in studies.items():
        at = Snapshot(plan(study), store)
        clock = PlanClock(at, "cpu")
        used = cores() / (at.folder.record.workers if at.folder is not None else 1)
        own[name] = [step for step in at.plan.steps if step.kind == TABLE or step.key not in work]
        for step in own[name]:
            key = _key(name, step)
            work[key] = clock.work(step)
            if at.is_there(step):
                measured[key] = used * (at.seconds(step) or 0.0)
    known = sum(work[key] for key in measured)
    pace = sum(measured.values()) / known if known else CORES_OF_THE_RATE
    found = {}
    for name, steps in own.items():
        left = [step for step in steps if _key(name, step) not in measured]
        kinds = [sum(step.kind == kind for step in left) for kind in (FINETUNE, LOCALIZE, SCORE)]
        spent = sum(measured.get(_key(name, step), 0.0) for step in steps) / 3600
        to_do = pace * sum(work[_key(name, step)] for step in left) / 3600
        models, runs, scores = kinds
        found[name] = ExperimentCost(models, runs, scores, spent, to_do)
    return found


def _key(name: str, step: Step) -> str:
    """Return the key of a step among the steps of all experiments: each experiment has tables of its own."""
    return f"{name} {step.key}" if step.kind == TABLE else step.key
