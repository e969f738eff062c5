"""Table 2: the accuracy and calibration of the graft of a tiny region, compared with the fine-tuned model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.analysis.run_tables import composition, stability_of_runs
from skillviz.core.formats import listed
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.comparisons import keeps, less
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.setting import SettingRow, task_name
from skillviz.studies.study_observations import finetuned_labels, of_results, score_tables

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results

PAIRS = (
    ("graft", "ft"), ("graft", "ft_scaled"), ("graft", "graft_movement"), ("graft", "pretrained"), ("complement", "ft"),
)  # fmt: skip


def entries(scale: Scale) -> list[Entry]:
    """The default search and top movement at the same sizes for every task; on a few tasks the published search too.

    The published search has one fine-tuning seed: its size is an outcome, and it costs most.
    """
    runs = []
    for task in scale.tasks:
        others = scale.others(task)
        runs += [scale.grafts(task), scale.search(scale.finetuned_model(task), "movement", others=others)]
        if task in _published(scale):
            runs.append(scale.search(scale.first(task), "learned", scale.sizes[:1]))
    return runs


def _published(scale: Scale) -> tuple[str, ...]:
    """Return the tasks of the published search: all at the paper's scale, else a few."""
    return scale.tasks if scale.name == "paper" else scale.some("few")[:2]


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return scores, recovered, differences, composition and stability of every task."""
    runs = results.runs()
    return {
        **score_tables(of_results(results), PAIRS, with_gain=True),
        "composition": composition(runs),
        "stability": stability_of_runs(runs, finetuned_labels(results)),
    }


def differs(scale: Scale) -> list[SettingRow]:
    """Return the tasks of the published search, if it runs on only some of the tasks."""
    names = [task_name(scale, task) for task in _published(scale)]
    if not names or len(names) == len(scale.tasks):
        return []
    return [SettingRow("Learned mask", "on every task", f"on {listed(names)} alone, as it costs most")]


TABLE2 = Experiment(
    name="table2",
    title="Table 2: accuracy and calibration of the graft",
    question="Does a tiny region hold the fine-tuned skill, and is its graft better calibrated?",
    finding="A graft of at most 0.01% keeps most of the gain and has 40 to 90% less ECE (4096-shot).",
    entries=entries,
    tables=tables,
    makes=("scores", "recovered", "differences", "composition", "note"),
    published=("table2",),
    claims=(
        Claim("The graft keeps more than 95% of the fine-tuned score.", keeps(0.95)),
        Claim("The graft is better calibrated than the fine-tuned model.", less("graft", "ft", "ece", -1)),
    ),
    differs=differs,
    shown="per task",
)
