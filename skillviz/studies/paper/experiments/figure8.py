"""Figure 8: the overlap of regions in a model of several tasks, and the gain of a region or a union on every task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skillviz.analysis.overlaps import isolation, overlap
from skillviz.analysis.run_tables import stability_of_runs
from skillviz.analysis.scores import score_rows
from skillviz.analysis.tables import notes
from skillviz.core.localizers.table import LinearizedOptions
from skillviz.core.region import Region
from skillviz.core.stability import bootstrap_regions
from skillviz.errors import BadModel
from skillviz.models.finetune.recipes import MULTI_TASK
from skillviz.runs.run import Run
from skillviz.studies import task_unions
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.multi_task_regions import regions_of_tasks
from skillviz.studies.paper.region_comparisons import gains, helps_itself, related_share_more
from skillviz.studies.paper.setting import SettingRow, sizes_row, tasks_row, trained, tuning_row
from skillviz.studies.task_unions import (
    BOOTSTRAPS,
    EXAMPLES,
    JOINT,
    Runs,
    TaskScores,
    TaskSessions,
    TaskUnion,
    gain_rows,
    leaks_of,
)
from skillviz.tasks.readable_names import family

if TYPE_CHECKING:
    from skillviz.runs.session import Session
    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results


def entries(scale: Scale) -> list[Entry]:
    """Return one model of all tasks, and a region of each task, searched from the empty region with every mask seed."""
    return [regions_of_tasks(scale)]


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return overlap, isolation, gain, scores, stability and note of a multi-task study."""
    runs = task_unions.region_runs(results)
    if not runs:
        return {"note": notes("No region of a model of several tasks is finished, so there is nothing to tell.")}
    regions = {task: {seed: run.region() for seed, run in by_seed.items()} for task, by_seed in runs.items()}
    shared = {
        "overlap": overlap(regions),
        "isolation": isolation(regions),
    }
    try:
        return {**shared, **_from_models(results, runs, regions)}
    except BadModel as error:  # a packed store has runs but no weights
        remark = f"Gains need the weights of the multi-task model: {error.args[0]}"
        return {**shared, "stability": stability_of_runs(_every(runs), results.entry), "note": notes(remark)}


def _from_models(results: Results, runs: Runs, regions: Mapping[str, Mapping[int, Region]]) -> dict[str, pd.DataFrame]:
    """Return gain, scores, stability and note, which are computed with the models."""
    left = leaks_of(runs)
    unions, remarks = _unions(results, runs, regions)
    scored = {}
    for task, by_seed in runs.items():
        spec = next(iter(by_seed.values())).spec
        scored[task] = task_unions.scored(results.session, spec, unions, left[task].leaked, results.store.root)
    return {
        "gain": pd.DataFrame(gain_rows(scored, unions)),
        "scores": pd.DataFrame(_scores(scored, unions, runs)),
        "stability": stability_of_runs(_every(runs), results.entry, lambda run: bootstrapped(results.session, run)),
        "note": notes(
            *(one.sentence for one in left.values() if one.sentence),
            *_sentences(scored, runs),
            *remarks,
            *filter(None, [task_unions.left_out(results, runs)]),
        ),
    }


def bootstrapped(session: Session, run: Run) -> list[Region]:
    """Linearized regions of bootstrap samples of the run's training examples, each as large as the run's region."""
    pair, encoded = session.pair(run.spec), session.encoded(run.spec)
    problem, options = pair.problem(encoded["train"]), LinearizedOptions(examples=EXAMPLES)
    return list(bootstrap_regions(problem, run.record.size or 1, resamples=BOOTSTRAPS, options=options).regions)


def _every(runs: Runs) -> list[Run]:
    return [run for by_seed in runs.values() for run in by_seed.values()]


def _unions(
    results: Results, runs: Runs, regions: Mapping[str, Mapping[int, Region]]
) -> tuple[list[TaskUnion], list[str]]:
    """Return each task's region, the unions, and the families' unions after purification; also notes about them."""
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in regions.values())))
    groups = task_unions.unions(list(regions), {task: family(task) for task in regions})
    unions = [TaskUnion(task, (task,), tuple(by_seed.values())) for task, by_seed in regions.items()]
    joint = {
        group: tuple(reduce(Region.union, (regions[task][seed] for task in group)) for seed in seeds)
        for group in groups
    }
    unions += [TaskUnion(JOINT.join(group), group, by_seed) for group, by_seed in joint.items() if by_seed]
    specs = {task: next(iter(by_seed.values())).spec for task, by_seed in runs.items()}
    sessions = TaskSessions(specs, results.store.root)
    for group in (group for group in groups if task_unions.is_purified(group, list(regions)) and joint[group]):
        purified = tuple(
            sessions.purified(group, region, seed) for seed, region in zip(seeds, joint[group], strict=True)
        )
        unions.append(TaskUnion(JOINT.join(group), group, purified, purified=True))
    return unions, [f"Unions use the mask seeds that every task has: {len(seeds)}."]


def _scores(scored: Mapping[str, TaskScores], unions: Sequence[TaskUnion], runs: Runs) -> list[dict[str, Any]]:
    """Return the scores behind the gains: base, multi-task model and every region, on the unseen test examples."""
    rows = []
    everyone = JOINT.join(runs)
    for task, of_task in scored.items():
        first = next(iter(runs[task].values()))
        common = {"base": first.spec.base, "recipe": MULTI_TASK, "setting": "all", "task": task, "split": "test"}
        ends = {"pretrained": (of_task.base, 0.0), "multi_task": (of_task.finetuned, np.nan)}
        for method, (logits, touched) in ends.items():
            columns = {"id_task": everyone, "method": method, "localizer": "", "size": np.nan, "share": np.nan}
            rows += score_rows([logits], of_task.labels, of_task.task, {**common, **columns, "touched": touched})
        for one in unions:
            size = float(np.mean([region.size for region in one.regions]))
            columns = {
                "id_task": one.label, "method": "graft", "size": size, "share": size / one.regions[0].d,
                "touched": size, "localizer": first.spec.localizer,
                "search_variant": "purified" if one.purified else "",
            }  # fmt: skip
            grafts = of_task.grafts[one.label, one.purified]
            rows += score_rows(grafts, of_task.labels, of_task.task, {**common, **columns})
    return rows


def _sentences(scored: Mapping[str, TaskScores], runs: Runs) -> list[str]:
    """Return caveats about the gains: tasks that gain little, and tasks with too few seeds."""
    sentences = []
    for task, of_task in scored.items():
        whole = task_unions.mean_relative_gain(of_task, (of_task.finetuned,))
        if not np.isfinite(whole.value):
            sentences.append(f"{task}: the multi-task model is no better than the base, so there is no relative gain.")
        if len(runs[task]) < 3:
            sentences.append(f"{task}: {len(runs[task])} mask seed(s) only; intervals over seeds need three.")
    return sentences


def differs(scale: Scale) -> list[SettingRow]:
    """Return the tasks, and the training of one model on all of them."""
    names = scale.some("multi")
    steps = scale.training.get("steps")
    how = trained(scale, "plain SGD on all tasks at once", len(names) * steps if steps else None)
    heads = "one per task" if scale.readout == "head" else "one for all tasks, the language model's"
    return [
        tasks_row(scale, "eight: NLI, sentiment, paraphrase and topic", names),
        tuning_row(scale, how),
        sizes_row(scale, scale.sizes[:1]),
        SettingRow("Heads", "not stated", heads),
    ]


FIGURE8 = Experiment(
    name="figure8",
    title="Figure 8: regions in one model of several tasks",
    question="Do the regions of several tasks overlap? How much does a region, or a union, give each task?",
    finding=(
        "Regions hardly overlap, though more for related tasks. A region helps its own task and related ones. A union "
        "helps its members most, even more after purification."
    ),
    entries=entries,
    tables=tables,
    makes=("overlap", "gain", "isolation", "scores", "stability", "note"),
    claims=(
        Claim("Regions of related tasks overlap more than those of unrelated ones.", related_share_more),
        Claim("A region helps its own task more than the regions of unrelated tasks do.", helps_itself),
        Claim(
            "The union of a group's regions recovers at least 70% of each task's gain.",
            gains(0.7, True, False),
            "relative gain kept by the union, about",
        ),
        Claim(
            "After purification the union recovers at least 80%.",
            gains(0.8, True, True),
            "relative gain after purification, about",
        ),
    ),
    differs=differs,
    shown="overlap and gain",
)
