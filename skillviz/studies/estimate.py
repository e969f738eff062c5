"""How long the steps of a study will take, told before it starts: from headers, row counts and what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any

import pandas as pd

from skillviz.core.formats import counted, rough_seconds
from skillviz.core.size import parse_size
from skillviz.errors import SkillvizError
from skillviz.models.preflight import preflight
from skillviz.runs.artifact import FINETUNE, LOCALIZE, SCORE, UNKNOWN
from skillviz.runs.estimate import BACKWARD, FORWARD, INTERVALS, Facts, example_seconds, facts_of, published_facts
from skillviz.runs.record import RunRecord
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, shipped_root
from skillviz.studies.finetuned_model import read_finetuned
from skillviz.studies.finetuned_store import RECORD, FineTunedArtifact, finetuned_record
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.plan import Plan, plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.status import FINISHED, Snapshot
from skillviz.studies.step import TABLE, Step
from skillviz.studies.store import list_studies
from skillviz.tasks import registry
from skillviz.tasks.project import finetuned_root

A_ROW = 0.4  # seconds of the tables for each run or score
MEASURES = 40  # finished runs or members at the most that are taken as the measure
SIDE_BY_SIDE = {"cpu": 1.2, "cuda": 1.0}
"""How much longer a step takes while others run beside it: 21 s alone and 24.5 s in twos (2 cores, demo world)."""
ONE_BY_ONE = 1.2  # times the seconds of a batched example, for every class but one
OF_FACTS = (
    "base", "task", "readout", "k_shot", "data_seed", "max_train", "max_validation", "max_test", "others",
)  # fmt: skip
_FACTS: dict[Any, Facts] = {}
"""Of this process: a study is timed twice, before it is begun and for its record."""


@dataclass(frozen=True)
class Estimates:
    """Seconds of every step of a plan by key; `measured` finished steps were taken as the measure.

    `stored` are the keys of steps that a shipped study did, whose seconds were taken, corrected by `compared` of them
    that were finished here; `device` is cpu or cuda.
    """

    steps: Mapping[str, float]
    measured: int = 0
    stored: frozenset[str] = frozenset()
    device: str = "cpu"
    compared: int = 0

    def left(self, steps: Sequence[Step], workers: int = 1) -> float:
        """Seconds that these steps take, shared by some workers; the tables are made by one, after all else."""
        tables = sum(self.steps.get(step.key, UNKNOWN) for step in steps if step.kind == TABLE)
        others = [self.steps.get(step.key, UNKNOWN) for step in steps if step.kind != TABLE]
        count = min(max(1, workers), max(1, len(others)))
        beside = SIDE_BY_SIDE[self.device] if count > 1 else 1.0
        return max(sum(others) * beside / count, max(others, default=0.0)) + tables

    def words(self, steps: Sequence[Step], workers: int = 1) -> str:
        """As told to a person: how long, and where the number comes from."""
        return f"about {rough_seconds(self.left(steps, workers))} ({self.basis(steps)})"

    def basis(self, steps: Sequence[Step]) -> str:
        """What the minutes rest on."""
        shipped = sum(step.key in self.stored for step in steps)
        if shipped:
            took = "estimated from the shipped study"
            if shipped < len(steps):
                took = f"{shipped} of them estimated from shipped studies"
            corrected = f", corrected by {counted(self.compared, 'finished step')} here"
            return took + (corrected if self.compared else " where it was made")
        if not self.measured:
            return "rough: nothing has been measured here yet"
        return f"measured on {counted(self.measured, 'finished step')}"


def estimate(study: StudySpec, store: Store, workers: int = 1) -> float:
    """Seconds until the study is finished: those of the steps that are not."""
    now = Snapshot(plan(study), store)
    return estimates(now).left([step for step in now.plan.steps if not now.is_there(step)], workers)


def estimates(now: Snapshot, on: str = "") -> Estimates:
    """Seconds of every step of a plan. What is finished on the same kind of device corrects the constants.

    `on` is cpu or cuda, whatever the steps would take here; each step's own device where it is empty.
    """
    return PlanClock(now, on).estimates()


@dataclass(frozen=True)
class Preview:
    """A plan, how many of its steps are left, the time they take in words and in seconds, and every step."""

    plan: Plan
    left: int
    minutes: str
    seconds: float
    steps: pd.DataFrame


def preview(study: StudySpec, store: Store, workers: int = 1) -> Preview:
    """What a study would do now, told from files alone; raises a SkillvizError where its file is wrong."""
    at = Snapshot(plan(study), store)
    seconds = estimates(at)
    missing = [step for step in at.plan.steps if not at.is_there(step)]
    rows = [
        {"kind": step.kind, "step": step.title, "state": at.state(step), "seconds": round(seconds.steps[step.key], 1)}
        for step in at.plan.steps
    ]
    steps = pd.DataFrame(rows, columns=["kind", "step", "state", "seconds"])
    return Preview(at.plan, len(missing), seconds.words(missing, workers), seconds.left(missing, workers), steps)


def time_left(at: Snapshot, workers: int) -> str:
    """`4 of 6 steps left, about 3 min (...)`, with so many processes in parallel."""
    left = [step for step in at.plan.steps if not at.is_there(step)]
    if not left:
        return "nothing is left"
    side = f", with {workers} processes in parallel" if workers > 1 else ""
    return f"{len(left)} of {len(at.plan.steps)} steps left, {estimates(at).words(left, workers)}{side}"


@dataclass(frozen=True)
class ShippedTimings:
    """Seconds of steps by key, and of all tables of a study by the key of its plan."""

    steps: Mapping[str, float] = field(default_factory=dict)
    tables: Mapping[str, float] = field(default_factory=dict)


@cache
def shipped_timings(device: str, root: str) -> ShippedTimings:
    """Of the studies in `root` that were made on this kind of device (cpu or cuda): the least that each step took."""
    steps, tables = dict[str, float](), dict[str, float]()
    for study in list_studies(Store(root)):
        record = study.record
        if (record.device or "").partition(" ")[0] != device:
            continue
        for key, note in record.steps.items():
            if note.state == FINISHED and note.seconds:
                timings, name = (tables, record.key) if key == TABLE else (steps, key)
                timings[name] = min(note.seconds, timings.get(name, note.seconds))
    return ShippedTimings(steps, tables)


@dataclass
class PlanClock:
    """What is known of pairs and tasks, each read once, and how fast this machine was; `on` as of `estimates`."""

    now: Snapshot
    on: str = ""

    def estimates(self) -> Estimates:
        """The estimates of all steps."""
        rough = {step.key: self.rough(step) for step in self.plan.steps}
        ratios = {FINETUNE: self.trained(), SCORE: self.scored(rough)}
        factors = {kind: median(of_kind) for kind, of_kind in ratios.items() if of_kind}
        seconds_by_step = {step.key: rough[step.key] * factors.get(step.kind, 1.0) for step in self.plan.steps}
        shipped = self.shipped()
        speeds = [seconds / shipped[s.key] for s in self.plan.steps if s.key in shipped and (seconds := self.took(s))]
        speed = median(speeds) if speeds else 1.0
        seconds_by_step |= {key: seconds * speed for key, seconds in shipped.items()}
        measured = len(self.records) + sum(len(of) for of in ratios.values())
        return Estimates(seconds_by_step, measured, frozenset(shipped), self.device, len(speeds))

    @cached_property
    def device(self) -> str:
        """The kind of device that most of the steps take."""
        if self.on:
            return self.on
        kinds = [self.kind(step.device) for step in self.plan.steps if step.kind != TABLE]
        return max(kinds, key=kinds.count) if kinds else "cpu"

    def took(self, step: Step) -> float | None:
        """The seconds that a step took here; None where it is not finished."""
        is_measured = step.kind != TABLE and self.kind(step.device) == kind_of(step.device)
        return self.now.seconds(step) if is_measured and self.now.is_there(step) else None

    def kind(self, device: str) -> str:
        """cpu or cuda: what a spec's `device` stands for."""
        return self.on or kind_of(device)

    def shipped(self) -> dict[str, float]:
        """The seconds of those steps of the plan that a shipped study did on this kind of device."""
        there = shipped_timings(self.device, str(shipped_root().resolve()))
        steps = {step.key: there.steps[step.key] for step in self.plan.steps if step.key in there.steps}
        tables = there.tables.get(self.plan.key)
        return steps if tables is None else {**steps, TABLE: tables}

    @property
    def plan(self) -> Plan:
        """The plan."""
        return self.now.plan

    @cached_property
    def records(self) -> list[RunRecord]:
        """Finished runs of the store, by which other runs are told: the newest of the study's bases."""
        bases = {spec.base for spec in self.plan.runs}
        return [run.record for run in self.now.store.list() if run.spec.base in bases][:MEASURES]

    def rough(self, step: Step) -> float:
        """Seconds of a step; of a run they are corrected by other runs already."""
        if step.kind != TABLE:
            return step.artifact.cost(self, self.kind(step.device))
        rows = self.a_row() * (1 + sum(s.kind in (LOCALIZE, SCORE) for s in self.plan.steps))
        return rows + self.recomputed()

    def recomputed(self) -> float:
        """Seconds of what the experiment's tables compute with the models: gains, purification and bootstrap."""
        experiment, seconds = EXPERIMENTS.get(self.plan.study.experiment or ""), 0.0
        for one in experiment.passes(self.plan) if experiment else ():
            facts = self.facts(one.spec, self.kind(one.spec.device))
            if facts is None:
                return seconds + UNKNOWN
            gradients = one.batched + one.single * ONE_BY_ONE * max(1, facts.labels - 1)
            seconds += gradients * example_seconds(BACKWARD, facts)
            seconds += one.scored * (facts.counts.get("test", 0) * example_seconds(FORWARD, facts) + INTERVALS / 4)
        return seconds

    def facts(self, spec: RunSpec, device: str) -> Facts | None:
        """What is known of a run; of the base alone where the fine-tuned model has yet to be made."""
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

    def trained(self) -> list[float]:
        """How much longer finished fine-tunings of these bases took than was thought, on the same kind of device."""
        bases = {spec.base for spec in self.plan.finetuned}
        devices = {self.kind(step.device) for step in self.plan.steps if step.kind == FINETUNE}
        ratios: list[float] = []
        for path in sorted(finetuned_root().glob(f"*/{RECORD}"), key=lambda p: p.stat().st_mtime, reverse=True):
            record = finetuned_record(path.parent) if bases and len(ratios) < MEASURES else None
            if record is None or record["spec"]["base"] not in bases:
                continue
            device = str(record.get("device", "")).partition(" ")[0]
            thought = FineTunedArtifact(read_finetuned(record["spec"])).cost(self, device) if device in devices else 0.0
            ratios += [record["seconds"] / thought] if thought else []
        return ratios

    def scored(self, rough: Mapping[str, float]) -> list[float]:
        """How much longer finished scores of this study took than was thought."""
        there = [(self.took(s), rough[s.key]) for s in self.plan.of(SCORE)]
        return [seconds / thought for seconds, thought in there if seconds and thought > 0]

    def a_row(self) -> float:
        """Seconds that tables take for each run and score."""
        rows: list[float] = []
        for record in (folder.record for folder in list_studies(self.now.store)):
            note = record.steps.get(TABLE)
            count = sum(s.kind in (LOCALIZE, SCORE) for s in record.steps.values())
            rows += [note.seconds / (1 + count)] if note is not None and note.seconds else []
        return median(rows) if rows else A_ROW


def kind_of(device: str) -> str:
    """cpu or cuda: what a spec's `device` will take here."""
    if device != "auto":
        return device.partition(":")[0]
    try:
        if version("torch").endswith("+cpu"):
            return "cpu"
    except PackageNotFoundError:
        return "cpu"
    from skillviz.models.device import pick  # imports torch

    return str(pick().type)
