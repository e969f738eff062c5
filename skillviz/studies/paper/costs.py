"""The missing steps and core-hours of the paper's experiments, in the order of `reproduce all`.

A core-hour is one processor core for an hour: the seconds of a finished step times the cores that it could use.
"""

from __future__ import annotations

from dataclasses import dataclass

from skillviz.core.formats import counted
from skillviz.runs.artifact import FINETUNE, LOCALIZE, SCORE
from skillviz.runs.store import Store
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.scales import Scale
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.status import Snapshot, cores
from skillviz.studies.step import TABLE

CORE_HOURS = {
    "localizers": 33, "table2": 16, "figure2": 36, "figure9": 14, "figure10": 14, "figure6": 1, "figure15": 10,
    "figure4": 8, "sensitivity": 4, "figure7": 10, "table4": 20, "figure8": 15, "table1": 18, "table3": 21,
    "figure3": 4, "figure5": 13, "table8": 4, "table9": 2, "figure12": 4, "figure13": 9, "figure11": 12, "figure14": 12,
    "table5": 12, "table6": 30, "table7": 40, "subsets": 30,
}  # fmt: skip
"""Each experiment's core-hours by itself at the scale small, on two cores, estimated on 29 November 2026.

Replace a number by the measured one when the experiment has been made on a CPU. The order is that of `reproduce all`:
the most informative first, because the last ones are lost if time runs out.
"""
ESTIMATED = "estimated in November 2026 for two cores"


@dataclass(frozen=True)
class ExperimentCost:
    """The steps of an experiment that no earlier one has: the numbers left by kind, and the core-hours spent.

    `is_whole`: all steps of the experiment are finished, shared ones and tables included.
    """

    models: int
    runs: int
    scores: int
    spent: float
    is_whole: bool


def measured_by(name: str, command: str) -> str:
    """Return the sentence with the command that measures an experiment, and its core-hours."""
    hours = f", in about {counted(CORE_HOURS[name], 'core-hour')} ({ESTIMATED})" if name in CORE_HOURS else ""
    return f"`{command}` measures it{hours}."


def costs(scale: Scale, store: Store) -> dict[str, ExperimentCost]:
    """Return the cost of every experiment in order; a step that several share counts in the first of them."""
    seen, found = set[str](), {}
    for name in CORE_HOURS:
        at = Snapshot(study_plan(StudySpec(**EXPERIMENTS[name].build(scale))), store)
        used = cores() / (at.folder.record.workers if at.folder is not None else 1)
        steps = [step for step in at.plan.steps if step.kind == TABLE or step.key not in seen]
        seen.update(step.key for step in steps)
        left = [step.kind for step in steps if not at.is_there(step)]
        spent = used * sum(at.seconds(step) or 0.0 for step in steps if at.is_there(step)) / 3600
        is_whole = all(map(at.is_there, at.plan.steps))
        models, runs, scores = map(left.count, (FINETUNE, LOCALIZE, SCORE))
        found[name] = ExperimentCost(models, runs, scores, spent, is_whole)
    return found
