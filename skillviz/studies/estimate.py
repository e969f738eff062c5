"""Estimate the remaining time of a study: the work of the missing steps, at the pace of the finished ones.

Before the first step is finished, the estimate is an order of magnitude. The work of a step is computed from headers
and row counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pandas as pd

from skillviz.core.formats import NOT_MEASURED, counted, order_of_magnitude
from skillviz.core.formats import time_left as left_words
from skillviz.core.size import parse_size
from skillviz.errors import SkillvizError
from skillviz.models.preflight import preflight
from skillviz.runs.artifact import LOCALIZE, SCORE, UNKNOWN
from skillviz.runs.estimate import BACKWARD, Facts, example_seconds, facts_of, published_facts
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.plan import Plan, plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.status import Snapshot
from skillviz.studies.step import TABLE, Step
from skillviz.tasks import registry

A_ROW = 0.4  # seconds of the tables for each run or score
SIDE_BY_SIDE = {"cpu": 1.2, "cuda": 1.0}
"""The factor by which a step is slower beside others: 21 s alone and 24.5 s in twos (2 cores, a tiny encoder)."""
ONE_BY_ONE = 1.2  # relative to a batched example, for every class but one
OF_FACTS = (
    "base", "task", "readout", "k_shot", "data_seed", "max_train", "max_validation", "max_test", "others",
)  # fmt: skip
_FACTS: dict[Any, Facts] = {}
"""A cache for this process: a study is estimated twice, before its start and for its record."""


@dataclass(frozen=True)
class Estimates:
    """The work of every step of a plan by key, in seconds at an assumed speed.

    The `measured` finished steps took `pace` times as long; None if none is finished. `device` is cpu or cuda.
    """

    steps: Mapping[str, float]
    device: str = "cpu"
    measured: int = 0
    pace: float | None = None

    def left(self, steps: Sequence[Step], workers: int = 1) -> float:
        """Return the seconds that these steps take at the assumed speed, shared by some workers; one worker makes the
        tables after all other steps."""
        tables = sum(self.steps.get(step.key, UNKNOWN) for step in steps if step.kind == TABLE)
        others = [self.steps.get(step.key, UNKNOWN) for step in steps if step.kind != TABLE]
        count = min(max(1, workers), max(1, len(others)))
        beside = SIDE_BY_SIDE[self.device] if count > 1 else 1.0
        return max(sum(others) * beside / count, max(others, default=0.0)) + tables

    def words(self, steps: Sequence[Step], workers: int = 1) -> str:
        """Return `about 4 min left, measured on 3 finished steps`, or an order of magnitude if no step is measured."""
        left = self.left(steps, workers)
        if self.pace is None:
            return f"{order_of_magnitude(left)} (an order of magnitude; {NOT_MEASURED})"
        return f"{left_words(left * self.pace)}, measured on {counted(self.measured, 'finished step')}"


def estimates(now: Snapshot, on: str = "") -> Estimates:
    """Return the work of every step of a plan, and the pace of the steps finished on the same kind of device.

    `on` is cpu or cuda; if it is empty, each step's own device is used.
    """
    return PlanClock(now, on).estimates()


@dataclass(frozen=True)
class Preview:
    """A plan, its number of missing steps, their time in words, and the state of every step."""

    plan: Plan
    left: int
    time: str
    steps: pd.DataFrame


def preview(study: StudySpec, store: Store, workers: int = 1) -> Preview:
    """Return a preview of a study, computed from files alone; raises a SkillvizError if the study's file is wrong."""
    at = Snapshot(plan(study), store)
    missing = [step for step in at.plan.steps if not at.is_there(step)]
    rows = [{"kind": step.kind, "step": step.title, "state": at.state(step)} for step in at.plan.steps]
    steps = pd.DataFrame(rows, columns=["kind", "step", "state"])
    return Preview(at.plan, len(missing), estimates(at).words(missing, workers), steps)


def time_left(at: Snapshot, workers: int) -> str:
    """Return `4 of 6 steps to do: about 3 min left, ...`, for this number of parallel processes."""
    left = [step for step in at.plan.steps if not at.is_there(step)]
    if not left:
        return "nothing is left"
    side = f", with {workers} processes in parallel" if workers > 1 else ""
    return f"{len(left)} of {len(at.plan.steps)} steps to do: {estimates(at).words(left, workers)}{side}"


@dataclass
class PlanClock:
    """The work of a plan's steps, with each pair and task read once; `on` as in `estimates`."""

    now: Snapshot
    on: str = ""

    def estimates(self) -> Estimates:
        """Return the work of all steps and the pace of the finished ones."""
        work = {step.key: self.work(step) for step in self.plan.steps}
        took = {step.key: seconds for step in self.plan.steps if (seconds := self.took(step))}
        pace = sum(took.values()) / sum(work[key] for key in took) if took else None
        return Estimates(work, self.device, len(took), pace)

    @cached_property
    def device(self) -> str:
        """The kind of device that most of the steps use."""
        if self.on:
            return self.on
        kinds = [self.kind(step.device) for step in self.plan.steps if step.kind != TABLE]
        return max(kinds, key=kinds.count) if kinds else "cpu"

    def took(self, step: Step) -> float | None:
        """Return the seconds that a step took here; None if it is not finished here."""
        is_measured = step.kind != TABLE and self.kind(step.device) == kind_of(step.device)
        return self.now.seconds(step) if is_measured and self.now.is_there(step) else None

    def kind(self, device: str) -> str:
        """Return cpu or cuda for a spec's `device`."""
        return self.on or kind_of(device)

    @property
    def plan(self) -> Plan:
        """The plan of the snapshot."""
        return self.now.plan

    def work(self, step: Step) -> float:
        """Return the seconds of a step at the assumed speed."""
        if step.kind != TABLE:
            return step.artifact.cost(self, self.kind(step.device))
        return A_ROW * (1 + sum(s.kind in (LOCALIZE, SCORE) for s in self.plan.steps)) + self.recomputed()

    def recomputed(self) -> float:
        """The seconds for recomputing with the models, for the experiment's tables: gains, purification, bootstrap."""
        experiment, seconds = EXPERIMENTS.get(self.plan.study.experiment or ""), 0.0
        for one in experiment.passes(self.plan) if experiment else ():
            facts = self.facts(one.spec, self.kind(one.spec.device))
            if facts is None:
                return seconds + UNKNOWN
            gradients = one.batched + one.single * ONE_BY_ONE * max(1, facts.labels - 1)
            passed = BACKWARD * gradients + one.scored * facts.counts.get("test", 0)
            seconds += passed * example_seconds(facts)
        return seconds

    def facts(self, spec: RunSpec, device: str) -> Facts | None:
        """The facts of a run, read from the base alone: the fine-tuned model may not exist yet. None if unreadable."""
        fields = spec.model_dump(include=set(OF_FACTS))
        key = *fields.values(), device
        try:
            if key not in _FACTS:
                base = preflight(spec.base, spec.base, registry.task(spec.task), spec.readout)
                plain = spec.model_copy(update={"sizes": ("1",)})
                _FACTS[key] = published_facts(plain, device, base) or facts_of(plain, device, base)
            facts = _FACTS[key]
            return replace(facts, sizes=tuple(parse_size(size, facts.d) for size in spec.sizes))
        except SkillvizError:
            return None


def kind_of(device: str) -> str:
    """Return cpu or cuda, the kind of device that a spec's `device` selects on this machine."""
    if device != "auto":
        return device.partition(":")[0]
    try:
        if version("torch").endswith("+cpu"):
            return "cpu"
    except PackageNotFoundError:
        return "cpu"
    from skillviz.models.device import pick  # imports torch

    return str(pick().type)
