"""Table 6: LoRA and adapters of several sizes, BitFit and a region re-trained, beside grafts of several sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.studies.paper import small_updates
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.comparisons import at_equal_size
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.setting import SettingRow, few_row, tasks_row

if TYPE_CHECKING:
    from skillviz.studies.paper.scales import Entry, Scale


def entries(scale: Scale) -> list[Entry]:
    """Return the entries of Table 1, and LoRA and adapters of the paper's sizes."""
    parts = (small_updates.entries, small_updates.by_size)
    return [entry for task in scale.some("updates") for part in parts for entry in part(scale, task)]


def differs(scale: Scale) -> list[SettingRow]:
    """Return its tasks, and the training of models with few trained parameters."""
    names = scale.some("updates")
    return [
        tasks_row(scale, "SST-2, AG News, QNLI and QQP", names),
        few_row(scale, names[0], tuple(small_updates.SIZES)),
    ]


TABLE6 = Experiment(
    name="table6",
    title="Table 6: is it the number of parameters?",
    question="Is a graft better calibrated than LoRA and adapters with as many parameters?",
    finding="At equal size a graft has 4.6 points less ECE, and is 1.7 points less accurate.",
    entries=entries,
    tables=small_updates.tables_of_own_task,
    makes=("scores", "differences", "note"),
    published=("table6",),
    claims=(
        Claim("At equal size, LoRA and adapters are worse calibrated than the graft.", at_equal_size("ece")),
        Claim("At equal size, LoRA and adapters are more accurate than the graft.", at_equal_size()),
    ),
    differs=differs,
    methods=("ft", "graft", "graft_retrain", "bitfit", "lora", "adapter_houlsby", "adapter_pfeiffer"),
)
