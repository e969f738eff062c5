"""Tables of models of several tasks in a study without an experiment: stages of a sequence, and what regions share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from skillviz.analysis import overlaps
from skillviz.analysis.stages import GRAFTING, NAIVE
from skillviz.models.finetune.recipes import CONTINUAL
from skillviz.studies.finetuned_model import FineTunedSpec
from skillviz.studies.paper.experiments import figure8, table4

if TYPE_CHECKING:
    from skillviz.studies.results import Results

TablesAndNotes = tuple[dict[str, pd.DataFrame], list[str]]
"""Tables by name, and sentences on them."""

SEVERAL_SEQUENCES = (
    "The study has several sequences of tasks in one mode, or of other tasks or training data in the other: the table "
    "`stages`, which tells one sequence in both modes, is not made; `scores` has every model after every stage."
)


def stages(results: Results) -> TablesAndNotes:
    """`stages` where the study has one sequence of tasks, in one mode or both; nothing where it has none."""
    by_mode: dict[str, list[FineTunedSpec]] = {NAIVE: [], GRAFTING: []}
    for member in results.plan.finetuned:
        if member.recipe == CONTINUAL:
            by_mode[GRAFTING if member.regions else NAIVE].append(member)
    every = [member for own in by_mode.values() for member in own]
    if not every:
        return {}, []
    if max(map(len, by_mode.values())) > 1 or len({(m.base, m.tasks, m.readout, m.k_shot) for m in every}) > 1:
        return {}, [SEVERAL_SEQUENCES]
    scores = {
        mode: [score for score in results.scores(recipe=CONTINUAL, mode=mode) if score.spec.on is None]
        for mode in by_mode
    }
    if not any(scores.values()):
        return {}, []
    regions = {spec.key() for member in by_mode[GRAFTING] for spec in member.regions}
    alone = {r.record.task.name: r for r in results.runs() if r.spec.key() in regions and r.record.task}
    sequence = table4.sequence_of(scores, alone)
    return {"stages": sequence.table()}, sequence.sentences()


def overlap(results: Results) -> TablesAndNotes:
    """`overlap` and `isolation` of the regions of a model of several tasks; nothing without two regions."""
    runs = figure8.region_runs(results)
    regions = {task: {seed: run.region() for seed, run in own.items()} for task, own in runs.items()}
    # a size that is an outcome may be that of no entry at all
    if len(regions) < 2 or not all(region.size for own in regions.values() for region in own.values()):
        return {}, []
    rest = figure8.left_out(results, runs)
    tables = {"overlap": overlaps.overlap(regions), "isolation": overlaps.isolation(regions)}
    return tables, [f"Overlap and isolation: {rest}"] if rest else []
