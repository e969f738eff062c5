"""How many examples the tables of Figure 8 pass through the models: what has to be told before they are made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from skillviz.core.purify import PurifyOptions
from skillviz.runs.artifact import LOCALIZE
from skillviz.runs.spec import RunSpec
from skillviz.studies import purified, several
from skillviz.studies.family import family
from skillviz.studies.paper.experiments.figure8 import RECIPE, is_purified
from skillviz.studies.paper.stability import EXAMPLES, RESAMPLES
from skillviz.studies.plan import Plan
from skillviz.studies.step import name_of


class Passes(NamedTuple):
    """Of one task's run: how often its test set is scored, examples that give gradients in batches, and one by one."""

    spec: RunSpec
    scored: int
    batched: int
    single: int


def passes(plan: Plan) -> Iterator[Passes]:
    """One for each task of the multi-task model; none where the study has no such model."""
    runs: dict[str, list[RunSpec]] = {}
    for step in plan.of(LOCALIZE, recipe=RECIPE):
        if isinstance(step.spec, RunSpec):
            runs.setdefault(name_of(step.spec.task), []).append(step.spec)
    groups = several.unions(list(runs), {task: family(task) for task in runs})
    mended = [group for group in groups if is_purified(group, list(runs))]
    for task, specs in runs.items():
        seeds, own = len(specs), sum(task in group for group in mended)
        yield Passes(
            specs[0],
            scored=2 + seeds * (len(runs) + len(groups) + len(mended)),
            batched=own * seeds * PurifyOptions().steps * purified.BATCH,
            single=RESAMPLES * EXAMPLES,
        )
