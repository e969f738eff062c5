"""Table 4: three tasks learned in sequence, naively and within their regions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skillviz.analysis.differences import PAIRED
from skillviz.analysis.scores import score_rows
from skillviz.analysis.stages import GRAFTING, INDEPENDENT, NAIVE, difference, unseen_answers
from skillviz.analysis.tables import check, notes
from skillviz.core.metrics import metric_names
from skillviz.models.finetune.recipes import CONTINUAL, MODES, SGD
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.comparisons import before_the_last, less
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.scales import SCALES, size_text
from skillviz.studies.paper.setting import SettingRow, search_row, sizes_row, tasks_row, trained, tuning_row
from skillviz.studies.task_sequence import TaskSequence, sequence_of

if TYPE_CHECKING:
    from skillviz.runs.run import Run
    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results

LOCALIZER = "stagewise"
METHODS = {**MODES, INDEPENDENT: INDEPENDENT}
SIZE = {"small": 0.01, "paper": 0.0001}
"""The share of each task's region. At the published 0.01%, a union of three is too small for a small model's skills."""


def entries(scale: Scale) -> list[Entry]:
    """Return both modes on one sequence of the tasks; each task's region is searched on a model of its own."""
    names = scale.some("sequence")
    training = {name: value for name, value in scale.training.items() if name != "grid"}  # a stage has no grid
    shared = scale.several_tasks(CONTINUAL, names, training)
    region = {
        **scale.options.get(LOCALIZER, {}), "localizer": LOCALIZER, "size": size_text(_size(scale)),
        "finetune": shared["finetune"],
    }  # fmt: skip
    both = {**shared, "localizer": "none"}
    return [{**both, "mode": NAIVE}, {**both, "mode": GRAFTING, "region": region}]


def _size(scale: Scale) -> float:
    """Return the share of each task's region: the user's if given, else the experiment's."""
    usual = SCALES.get(scale.name)
    return scale.sizes[0] if usual is not None and scale.sizes != usual.sizes else SIZE.get(scale.name, 0.01)


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return stages, scores, differences and note; raises BadData if grafting changed an earlier task's logits."""
    scores = {mode: list(results.scores(recipe=CONTINUAL, mode=mode)) for mode in (NAIVE, GRAFTING)}
    alone = {run.record.task_name: run for run in results.runs(role="region")}
    sequence = sequence_of(scores, alone)
    return {
        "stages": sequence.table(),
        "scores": pd.DataFrame(_scores(sequence, alone)),
        "differences": check(pd.DataFrame(_differences(sequence)), "differences"),
        "note": notes(*sequence.sentences(), "One fine-tuning seed: intervals are over test examples."),
    }


def _scores(sequence: TaskSequence, alone: Mapping[str, Run]) -> list[dict[str, Any]]:
    """Return every task's scores after the last stage by mode, and the scores of its own region's graft."""
    rows = []
    for task in sequence.order:
        run, note = alone.get(task), sequence.tasks[task]
        by_method = {METHODS[mode]: sequence.last(mode, task) for mode in sequence.by_mode}
        if run is not None:
            leaked = sequence.leaks[task].leaked
            by_method["pretrained"] = unseen_answers(run.predictions(), note, leaked, "pretrained")
            by_method["graft"] = unseen_answers(run.predictions(), note, leaked, "grafted")
        for method, answers in by_method.items():
            if answers is None:
                continue
            size = float(run.record.size or 0) if run and method == "graft" else np.nan
            share = float(run.record.share or 0) if run and method == "graft" else np.nan
            columns = {
                "base": run.spec.base if run else "", "recipe": CONTINUAL if "continual" in method else SGD,
                "setting": "all", "id_task": task, "task": task, "split": "test", "method": method,
                "localizer": run.spec.localizer if run and method == "graft" else "", "size": size, "share": share,
                "touched": size,
            }  # fmt: skip
            rows += score_rows([answers.logits], answers.labels, note, columns)
    return rows


def _differences(sequence: TaskSequence) -> list[dict[str, Any]]:
    """Differences after the last stage, on the same examples: each mode − independent models, grafting − naive."""
    rows = []
    for name, task in ((name, sequence.tasks[name]) for name in sequence.order):
        for a, b in ((NAIVE, INDEPENDENT), (GRAFTING, INDEPENDENT), (GRAFTING, NAIVE)):
            one, two = sequence.last(a, name), sequence.last(b, name)
            if one is None or two is None:
                continue
            for metric in metric_names(task.metric, ("accuracy", "ece")):
                rows.append(
                    {
                        "id_task": name, "task": name, "setting": "all", "readout": "", "recipe": CONTINUAL,
                        "variant": "", "recipe_b": "", "variant_b": "", "localizer": "", "search_variant": "",
                        "size": np.nan, "share": np.nan, "a": METHODS[a], "b": METHODS[b], "metric": metric,
                        **difference(one, two, metric, task)._asdict(), "over": PAIRED, "n": len(one.labels),
                        "seeds": 1,
                    }
                )  # fmt: skip
    return rows


def differs(scale: Scale) -> list[SettingRow]:
    """Return its sequence, the training, and the regions."""
    rows = [
        tasks_row(scale, "QNLI, AG News, SST-2", scale.some("sequence")),
        tuning_row(scale, trained(scale, "plain SGD on one task after the other")),
        search_row(scale, 1),
        sizes_row(scale, [_size(scale)]),
    ]
    return rows + ([SettingRow("Heads", "none", "one per task")] if scale.readout == "head" else [])


TABLE4 = Experiment(
    name="table4",
    title="Table 4: tasks learned one after the other",
    question="Does a model forget less if it learns each task within its own region?",
    finding="Naive training loses 20 points on the first of three tasks; training within regions loses 1.5.",
    entries=entries,
    tables=tables,
    makes=("stages", "scores", "differences", "note"),
    published=("table4",),
    claims=(
        Claim("Naive training in sequence forgets the earlier tasks.",
              before_the_last(less("continual_naive", "independent", sign=-1))),
        Claim("Training within regions forgets less than naive training.",
              before_the_last(less("continual_graft", "continual_naive"))),
    ),
    differs=differs,
)  # fmt: skip
