"""Table 4: three tasks learned one after the other, naively and within their regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skillviz.core.metrics import with_own
from skillviz.models.finetune.recipes import MODES
from skillviz.runs.run import Run
from skillviz.runs.score import Score
from skillviz.studies.comparing import before_the_last, less
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.setting import SettingRow, search_row, sizes_row, tasks_row, trained, tuning_row
from skillviz.studies.paper.verdicts import Claim
from skillviz.studies.score_rows import score_rows
from skillviz.studies.stages import (
    GRAFTING,
    INDEPENDENT,
    NAIVE,
    Answers,
    answers,
    difference,
    refuse_changed,
    stage_rows,
)
from skillviz.studies.tables import OVER, notes
from skillviz.tasks import registry
from skillviz.tasks.leaks import Unseen, unseen

if TYPE_CHECKING:
    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results

RECIPE = "continual"
LOCALIZER = "stagewise"
METHODS = {**MODES, INDEPENDENT: INDEPENDENT}
SIZE = {"demo": "10%", "small": "1%"}
"""Of each task's region. Unions of three of the published 0.01 % would hold too little of a small model's skills."""


def entries(scale: Scale) -> list[Entry]:
    """Both modes on one sequence, that of the tasks asked for; each task's region is searched on a model of its own."""
    names = scale.some("sequence", 3)
    shared = scale.several_tasks(RECIPE, names, dict(scale.training))
    region = {
        **scale.options.get(LOCALIZER, {}), "localizer": LOCALIZER, "size": SIZE.get(scale.name, "1%"),
        "finetune": shared["finetune"],
    }  # fmt: skip
    both = {**shared, "localizer": "none"}
    return [{**both, "mode": NAIVE}, {**both, "mode": GRAFTING, "region": region}]


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """stages, scores, differences and note; raises BadData where grafting changed an earlier task's logits."""
    found = {mode: list(results.scores(recipe=RECIPE, mode=mode)) for mode in (NAIVE, GRAFTING)}
    alone = {run.record.task_name: run for run in results.runs(role="region")}
    told = followed(found, alone)
    return {
        "stages": told.table(),
        "scores": pd.DataFrame(_scores(told, alone)),
        "differences": pd.DataFrame(_differences(told)),
        "note": notes(*told.said(), "One fine-tuning seed: intervals are over test examples."),
    }


@dataclass(frozen=True)
class Followed:
    """A sequence in each mode: answers by stage and task, without test examples that another task trained on."""

    stages: Mapping[str, Mapping[tuple[int, str], Answers]]
    left: Mapping[str, Unseen]
    order: Sequence[str]

    def table(self) -> pd.DataFrame:
        """The table `stages`."""
        rows = [row for mode, own in self.stages.items() for row in stage_rows(mode, own, self.order)]
        return pd.DataFrame(rows)

    def said(self) -> list[str]:
        """What must be said of it."""
        found = [one.sentence for one in self.left.values() if one.sentence]
        if self.stages[GRAFTING]:
            found.append(
                "In grafting every earlier task's test logits are bit for bit the same after every later stage; "
                "checked."
            )
        return found


def followed(found: Mapping[str, Sequence[Score]], alone: Mapping[str, Run]) -> Followed:
    """The sequence of these scores by mode; `alone` are the runs on a model of each task alone, by the task's name.

    Raises BadData where grafting changed an earlier task's logits.
    """
    order = order_of([score for scores in found.values() for score in scores])
    left = _left([s.spec.task for scores in found.values() for s in scores])
    stages: dict[str, dict[tuple[int, str], Answers]] = {
        mode: {place_of(s): answers(s.predictions(), s.record.task, left[place_of(s)[1]].seen) for s in scores}
        for mode, scores in found.items()
    }
    stages[INDEPENDENT] = {
        (number, task): answers(alone[task].predictions(), _note_of(alone[task]), left[task].seen)
        for number, task in enumerate(order, start=1)
        if task in alone
    }
    refuse_changed(stages[GRAFTING], order)
    return Followed(stages, left, order)


def place_of(score: Score) -> tuple[int, str]:
    """The stage and the task that a stored model of the sequence answers."""
    *_, stage, task = PurePosixPath(score.spec.finetuned).parts
    return int(stage), task


def order_of(scores: Sequence[Score]) -> list[str]:
    """The tasks in the order they were learned: a task is first answered after its own stage."""
    first: dict[str, int] = {}
    for stage, task in map(place_of, scores):
        first[task] = min(stage, first.get(task, stage))
    return sorted(first, key=lambda task: first[task])


def _left(files: Sequence[str]) -> dict[str, Unseen]:
    from skillviz.tasks.project import expanded

    return unseen([registry.task(expanded(file, "task")) for file in dict.fromkeys(files)])


def _note_of(run: Run) -> Any:
    return run.record.task


def _scores(told: Followed, alone: Mapping[str, Run]) -> list[dict[str, Any]]:
    """Every task after the last stage by mode, and the graft of its own region alone."""
    rows = []
    for task in told.order:
        run = alone.get(task)
        sides = {METHODS[mode]: _last(own, task) for mode, own in told.stages.items()}
        if run is not None:
            seen, note = told.left[task].seen, _note_of(run)
            sides["pretrained"] = answers(run.predictions(), note, seen, "pretrained")
            sides["graft"] = answers(run.predictions(), note, seen, "grafted")
        for method, own in sides.items():
            if own is None:
                continue
            size = float(run.record.size or 0) if run and method == "graft" else np.nan
            share = float(run.record.share or 0) if run and method == "graft" else np.nan
            common = {
                "base": run.spec.base if run else "", "recipe": RECIPE if "continual" in method else "sgd",
                "setting": "all", "id_task": task, "task": task, "split": "test", "method": method,
                "localizer": run.spec.localizer if run and method == "graft" else "", "size": size, "share": share,
                "touched": size,
            }  # fmt: skip
            rows += score_rows([own.logits], own.labels, own.task, common)
    return rows


def _differences(told: Followed) -> list[dict[str, Any]]:
    """After the last stage, on the same examples: each mode less the independent models, and grafting less naive."""
    rows = []
    for task in told.order:
        ends = {mode: _last(own, task) for mode, own in told.stages.items()}
        for a, b in ((NAIVE, INDEPENDENT), (GRAFTING, INDEPENDENT), (GRAFTING, NAIVE)):
            one, two = ends[a], ends[b]
            if one is None or two is None:
                continue
            for metric in with_own(one.task.metric, ("accuracy", "ece")):
                rows.append(
                    {
                        "id_task": task, "task": task, "setting": "all", "recipe": RECIPE, "localizer": "",
                        "size": np.nan, "share": np.nan, "a": METHODS[a], "b": METHODS[b], "metric": metric,
                        **difference(one, two, metric)._asdict(), "over": OVER[0], "n": len(one.labels), "seeds": 1,
                    }
                )  # fmt: skip
    return rows


def _last(own: Mapping[tuple[int, str], Answers], task: str) -> Answers | None:
    found = {stage: one for (stage, name), one in own.items() if name == task}
    return found[max(found)] if found else None


def differs(scale: Scale) -> list[SettingRow]:
    """Its sequence, how it is trained, and its regions."""
    rows = [
        tasks_row(scale, "QNLI, AG News, SST-2", scale.some("sequence", 3)),
        tuning_row(scale, trained(scale, "plain SGD on one task after the other")),
        search_row(scale, 1),
        sizes_row(scale, [SIZE.get(scale.name, "1%")]),
    ]
    return rows + ([SettingRow("Heads", "none", "one per task")] if scale.readout == "head" else [])


TABLE4 = Experiment(
    name="table4",
    title="Table 4: tasks learned one after the other",
    question="Does a model that learns each task within its region forget the earlier ones less?",
    finding="Naive training loses 20 points on the first of three tasks; within regions 1.5 against a model a task.",
    entries=entries,
    tables=tables,
    makes=("stages", "scores", "differences", "note"),
    published=("table4",),
    claims=(
        Claim("Naive training in turn loses what was learned before.",
              before_the_last(less("continual_naive", "independent", sign=-1))),
        Claim("Training in regions keeps more than naive training does.",
              before_the_last(less("continual_graft", "continual_naive"))),
    ),
    differs=differs,
)  # fmt: skip
