"""Figure 3: compare localization in a model with a classification head and in a prompted model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.comparisons import keeps
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.setting import READOUT, READOUTS, SettingRow
from skillviz.studies.study_observations import of_results, score_tables

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results

PAIRS = (("graft", "graft_movement"), ("graft", "ft"))
HEAD_SEED = 0


def entries(scale: Scale) -> list[Entry]:
    """Return a few tasks (or those requested) with each readout: the scale's own, and the head if that is another."""
    runs = []
    for task in scale.some("few"):
        runs += [scale.grafts(task), scale.search(scale.finetuned_model(task), "movement", others=scale.others(task))]
        if scale.readout != "head":
            head = scale.finetuned_model(task, readout="head", head="linear", seed=HEAD_SEED)
            runs += [scale.search(head, name) for name in ("stagewise", "movement")]
    return runs


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return scores and differences by readout; the readout is shown even if the study has only one."""
    own_tasks = [one for one in of_results(results) if one.task == one.id_task]
    observations = [replace(one, shown_readout=one.readout) for one in own_tasks]
    return score_tables(
        observations, PAIRS,
        "The head readout's pre-trained state has the fine-tuned head: its accuracy is not that of chance.",
    )  # fmt: skip


def differs(scale: Scale) -> list[SettingRow]:
    """Return the difference in readouts."""
    here = "classification head alone"
    if scale.readout != "head":
        here = f"{READOUTS[scale.readout]} and {READOUTS['head']}"
    return [SettingRow(READOUT, "prompt and classification head", here)]


FIGURE3 = Experiment(
    name="figure3",
    title="Figure 3: prompt against classification-head fine-tuning",
    question="Is the skill as localized after fine-tuning with a classification head as with a prompt?",
    finding="Yes, equally.",
    entries=entries,
    tables=tables,
    makes=("scores", "differences", "note"),
    claims=(Claim("With either readout the graft keeps more than 95% of the fine-tuned score.", keeps(0.95)),),
    differs=differs,
    methods=("pretrained", "ft", "graft"),
)
