"""Table 1, and LoRA of Table 6: a graft, its region re-trained from the base, BitFit, LoRA, full fine-tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.studies.paper import small_updates
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.comparisons import less
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.setting import SettingRow, few_row, tasks_row

if TYPE_CHECKING:
    from skillviz.studies.paper.scales import Entry, Scale


def entries(scale: Scale) -> list[Entry]:
    """Return some tasks (or those requested), each with its grafts and the models with few trained parameters."""
    return [entry for task in scale.some("updates") for entry in small_updates.entries(scale, task)]


def differs(scale: Scale) -> list[SettingRow]:
    """Return its tasks, and the training of models with few trained parameters."""
    names = scale.some("updates")
    return [tasks_row(scale, "SST-2, AG News, QNLI and QQP", names), few_row(scale, names[0])]


TABLE1 = Experiment(
    name="table1",
    title="Table 1: re-training a region, and BitFit",
    question=(
        "Is a region that is re-trained from the base as accurate and as well calibrated as its graft? And BitFit "
        "and LoRA?"
    ),
    finding="A re-trained region is slightly better than its graft, and calibrated. BitFit is only accurate.",
    entries=entries,
    tables=small_updates.tables_of_own_task,
    makes=("scores", "differences", "note"),
    published=("table1", "table6"),
    claims=(
        Claim("A re-trained region is more accurate than its graft.", less("graft_retrain", "graft")),
        Claim("A re-trained region is better calibrated than the fine-tuned model.",
              less("graft_retrain", "ft", "ece", -1)),
        Claim("BitFit is more accurate than the graft.", less("bitfit", "graft")),
        Claim("BitFit is worse calibrated than the graft.", less("bitfit", "graft", "ece")),
    ),
    differs=differs,
    methods=("ft", "graft", "graft_retrain", "bitfit", "lora"),
)  # fmt: skip
