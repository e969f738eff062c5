"""Any subset of tasks from one model: unions of regions, also without entries that other tasks' regions share, beside
nulls and a model of the subset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from skillviz.analysis.tables import notes
from skillviz.errors import BadModel
from skillviz.studies import task_unions
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.setting import SettingRow, sizes_row, tasks_row, trained, tuning_row
from skillviz.studies.paper.several_tasks import entry, model_of
from skillviz.studies.task_unions import UNION, gain_rows, leaks_of, subset_rows, subset_unions
from skillviz.tasks.readable_names import family

if TYPE_CHECKING:
    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results


def entries(scale: Scale) -> list[Entry]:
    """Return the regions of one model of all tasks, and a model of each subset whose regions are united."""
    names = scale.some("multi")
    groups = task_unions.unions(names, {name: family(name) for name in names})
    smaller = [scale.scored(model_of(scale, group)) for group in groups if len(group) < len(names)]
    return [entry(scale), *smaller]


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return subsets, overlap, isolation, gain and note."""
    shared, remarks = task_unions.overlap_and_notes(results)
    if not shared:
        return {"note": notes("Regions of two tasks of one model are not finished, so no union is measured.")}
    runs = task_unions.region_runs(results)
    unions, left = subset_unions(task_unions.regions_of(runs)), leaks_of(runs)
    try:
        scored = task_unions.scored_tasks(results, runs, unions, left)
        of_models = task_unions.trained_on_subsets(results, runs, left)
    except BadModel as error:  # a packed store has runs but no weights
        return {**shared, "note": notes(f"Gains need the weights of the multi-task model: {error.args[0]}", *remarks)}
    return {
        **shared,
        "subsets": pd.DataFrame(subset_rows(scored, unions, of_models)),
        "gain": pd.DataFrame(gain_rows(scored, [one for one in unions if one.what == UNION])),
        "note": notes(*(one.sentence for one in left.values() if one.sentence), *remarks),
    }


def differs(scale: Scale) -> list[SettingRow]:
    """Return the tasks, and the training of one model on all of them."""
    names = scale.some("multi")
    steps = scale.training.get("steps")
    how = trained(scale, "plain SGD on all tasks at once", len(names) * steps if steps else None)
    return [
        tasks_row(scale, "none", names),
        tuning_row(scale, f"{how}; a subset of m tasks has m shares of these steps"),
        sizes_row(scale, scale.sizes[:1]),
    ]


SUBSETS = Experiment(
    name="subsets",
    title="Any subset of tasks from one model",
    question="Do regions of one model serve any subset of its tasks as well as a model of that subset?",
    finding="The paper leaves open how to serve any subset of tasks without training a model for each subset.",
    entries=entries,
    tables=tables,
    makes=("subsets", "overlap", "isolation", "gain", "note"),
    published=(),
    differs=differs,
    shown="subsets",
)
