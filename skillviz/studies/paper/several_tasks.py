"""The shared part of Figures 8 and 11 to 14 and of subsets: the regions of each task in one model of several tasks.

Their overlap and gain, also of other starts of the mask and other optimizers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skillviz.analysis.overlaps import isolation, overlap
from skillviz.analysis.run_tables import stability_of_runs
from skillviz.analysis.scores import score_rows
from skillviz.analysis.tables import check, label, notes
from skillviz.core.formats import listed
from skillviz.core.localizers.table import STARTS, LinearizedOptions
from skillviz.core.region import Region
from skillviz.core.stability import bootstrap_regions
from skillviz.errors import BadModel
from skillviz.models.finetune.recipes import MULTI_TASK, RECIPES, SGD
from skillviz.runs.run import Run
from skillviz.studies import task_unions
from skillviz.studies.paper.scales import size_text
from skillviz.studies.paper.setting import SEARCH, TUNING, SettingRow, sizes_row, tasks_row, trained, tuning_row
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

LOCALIZER = "stagewise"
FROM_EMPTY = MappingProxyType({"start_share": 0.0, "candidate_share": 1.0})
FROM_START, EMPTY = "learned-ranked", "empty"
NO_STARTS: Mapping[str, float] = MappingProxyType({})


def entry(
    scale: Scale,
    optimizer: str = SGD,
    localizer: str = LOCALIZER,
    options: Mapping[str, Any] = FROM_EMPTY,
    share: float | None = None,
) -> Entry:
    """Return one model of all tasks, and a region of each task of this share (default: the main one) and mask seed."""
    run = model_of(scale, scale.some("multi"), optimizer)
    return {
        **run, **scale.options.get(localizer, {}), "localizer": localizer, "options": dict(options),
        "size": size_text(share or scale.sizes[0]), "seed": list(scale.mask_seeds),
    }  # fmt: skip


def model_of(scale: Scale, tasks: Sequence[str], optimizer: str = SGD) -> Entry:
    """Return the fields of a model of these tasks, with as many steps as the tasks' own models together."""
    training = dict(scale.training if optimizer == SGD else scale.adamw)
    if steps := training.get("steps"):
        training["steps"] = len(tasks) * steps
    if optimizer != SGD:
        training["optimizer"] = optimizer
    return scale.several_tasks(MULTI_TASK, tasks, training)


def from_start(scale: Scale, start: str, share: float) -> Entry:
    """Return the entry of regions that are learned from this start of the mask, with this share of the entries.

    The region is ten times as large as the start, or the main size if that is larger.
    """
    options = {"base": start, **({} if start == EMPTY else {"base_share": share})}
    return entry(scale, localizer=FROM_START, options=options, share=max(scale.sizes[0], 10 * share))


def tables(results: Results, with_unions: bool = True) -> dict[str, pd.DataFrame]:
    """Return overlap, isolation, gain, scores, stability and note of a multi-task study.

    They are of the first search and model; `variants` compares them all if there are several. Without `with_unions` the
    regions of single tasks alone are scored, and none is searched again on bootstrap samples.
    """
    groups = task_unions.region_groups(results)
    if not groups:
        return {"note": notes("No region of a model of several tasks is finished, so there is nothing to tell.")}
    runs, *others = groups
    regions = task_unions.regions_of(runs)
    shared = {"overlap": overlap(regions), "isolation": isolation(regions)}
    if others:
        of_groups = [isolation(task_unions.regions_of(one)).assign(variant=variant(results, one)) for one in groups]
        shared["variants"] = check(pd.concat(of_groups, ignore_index=True), "variants")
    try:
        return {**shared, **_from_models(results, runs, regions, with_unions)}
    except BadModel as error:  # a packed store has runs but no weights
        remark = f"Gains need the weights of the multi-task model: {error.args[0]}"
        return {**shared, "stability": stability_of_runs(_every(runs), results.entry), "note": notes(remark)}


def variant(results: Results, runs: Runs) -> str:
    """Return the start of the mask and the optimizer of these runs in words, where they are not the usual ones."""
    first = _every(runs)[0]
    start, optimizer = first.spec.options.get("base", ""), results.entry(first).get("optimizer", "")
    return label(STARTS.get(str(start), ""), RECIPES[optimizer].title if optimizer else "")


def _from_models(
    results: Results, runs: Runs, regions: Mapping[str, Mapping[int, Region]], with_unions: bool
) -> dict[str, pd.DataFrame]:
    """Return gain, scores, stability and note, which are computed with the models."""
    left = leaks_of(runs)
    unions = [TaskUnion(task, (task,), tuple(by_seed.values())) for task, by_seed in regions.items()]
    remarks, again = list[str](), None
    if with_unions:
        united, remarks = _unions(results, runs, regions)
        unions, again = unions + united, lambda run: bootstrapped(results.session, run)
    scored = task_unions.scored_tasks(results, runs, unions, left)
    return {
        "gain": pd.DataFrame(gain_rows(scored, unions)),
        "scores": pd.DataFrame(_scores(scored, unions, runs)),
        "stability": stability_of_runs(_every(runs), results.entry, again),
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
    """Return the unions of the tasks' regions, and the families' unions after purification; also notes about them."""
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in regions.values())))
    groups = task_unions.unions(list(regions), {task: family(task) for task in regions})
    joint = {
        group: tuple(reduce(Region.union, (regions[task][seed] for task in group)) for seed in seeds)
        for group in groups
    }
    unions = [TaskUnion(JOINT.join(group), group, by_seed) for group, by_seed in joint.items() if by_seed]
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


def differs(scale: Scale, optimizer: str = SGD, starts: Mapping[str, float] = NO_STARTS) -> list[SettingRow]:
    """Return the tasks, the training of one model on all of them, and the search: from these starts, if any."""
    names = scale.some("multi")
    tuned = scale if optimizer == SGD else replace(scale, training=scale.adamw)
    steps = tuned.training.get("steps")
    phrase = f"{RECIPES[optimizer].phrase} on all tasks at once"
    how = trained(tuned, phrase, len(names) * steps if steps else None)
    heads = "one per task" if scale.readout == "head" else "one for all tasks, the language model's"
    rows = [
        tasks_row(scale, "eight: NLI, sentiment, paraphrase and topic", names),
        tuning_row(scale, how) if optimizer == SGD else SettingRow(TUNING, f"{phrase}, its rate is not stated", how),
        sizes_row(scale, [max(scale.sizes[0], 10 * max(starts.values(), default=0.0))]),
        SettingRow("Heads", "not stated", heads),
    ]
    if starts:
        words = [STARTS[start] for start in starts]
        here = f"its scores, cut at the size (`{FROM_START}`); starts: {listed(words, 9)}"
        rows.append(SettingRow(SEARCH, "learned mask from top movement, its size is an outcome", here))
    return rows
