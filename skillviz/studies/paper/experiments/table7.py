"""Table 7: the methods of Table 6 on data that they were not tuned on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.studies.paper import small_updates
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.comparisons import at_equal_size, other_task
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.setting import SettingRow, few_row, shifts_row

if TYPE_CHECKING:
    from skillviz.studies.paper.scales import Entry, Scale


def entries(scale: Scale) -> list[Entry]:
    """Return the models of Table 6 for tasks that have other data, scored on those data too, and grafts of each size.

    The grafts are those of Figure 7: each size is a search of its own, because a run scores only its main size on other
    data.
    """
    runs = []
    for task in scale.some("large_shift"):
        others = scale.others(task)
        runs += [
            *scale.shifted(task), *small_updates.entries(scale, task, others)[1:],
            *small_updates.by_size(scale, task, others),
        ]  # fmt: skip
    return runs


def differs(scale: Scale) -> list[SettingRow]:
    """Return its other data, and the training of models with few trained parameters."""
    names = scale.some("large_shift")
    return [
        shifts_row(scale, "MPQA to SST-2 and Yelp; QNLI to MNLI and SNLI", names),
        few_row(scale, names[0], tuple(small_updates.SIZES)),
    ]


TABLE7 = Experiment(
    name="table7",
    title="Table 7: the same on other data",
    question="Does a graft transfer to other data better than LoRA and adapters with as many parameters?",
    finding="At equal size a graft is 7.9 points better on other data, and 1.0 points less accurate on its own task.",
    entries=entries,
    tables=small_updates.tables,
    makes=("scores", "differences", "note"),
    published=("table7",),
    claims=(
        Claim("At equal size, the graft beats LoRA and adapters on other data.",
              at_equal_size(sign=-1, keep=other_task)),
        Claim("At equal size, LoRA and adapters beat the graft on their own task.",
              at_equal_size()),
    ),
    differs=differs,
    on_other_data=True,
    methods=("pretrained", "ft", "graft", "graft_retrain", "bitfit", "lora", "adapter_houlsby", "adapter_pfeiffer"),
)  # fmt: skip
