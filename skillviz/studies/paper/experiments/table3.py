"""Table 3: grafts, re-trained regions, BitFit and LoRA on data that they were not tuned on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.studies.paper import small_updates
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.comparisons import alike, large_shift, less, small_shift
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.setting import SettingRow, few_row, shifts_row

if TYPE_CHECKING:
    from skillviz.studies.paper.scales import Entry, Scale


def entries(scale: Scale) -> list[Entry]:
    """Return the entries of Table 1 for tasks that have other data with the same labels, scored on those data too."""
    tasks = scale.some("transfer")
    return [entry for task in tasks for entry in small_updates.entries(scale, task, scale.others(task))]


def differs(scale: Scale) -> list[SettingRow]:
    """Return its other data, and the training of models with few trained parameters."""
    names = scale.some("transfer")
    return [shifts_row(scale, "SST-2 to Yelp and IMDb; QNLI to MNLI and SNLI", names), few_row(scale, names[0])]


TABLE3 = Experiment(
    name="table3",
    title="Table 3: other data, after re-training",
    question="Does a graft transfer to other data better than a re-trained region or BitFit?",
    finding="Equal under a small shift. From QNLI to MNLI and SNLI, the graft is best, then re-training, then BitFit.",
    entries=entries,
    tables=small_updates.tables,
    makes=("scores", "differences", "note"),
    published=("table3",),
    claims=(
        Claim("Under a small shift, graft and re-trained region are within 3 points.",
              alike("graft_retrain", "graft", keep=small_shift)),
        Claim("Under a small shift, graft and BitFit are within 3 points.",
              alike("bitfit", "graft", keep=small_shift)),
        Claim("On inference, the re-trained region is less accurate than the graft.",
              less("graft_retrain", "graft", sign=-1, keep=large_shift)),
        Claim("On inference, BitFit is less accurate than the graft.",
              less("bitfit", "graft", sign=-1, keep=large_shift)),
    ),
    differs=differs,
    on_other_data=True,
    methods=("pretrained", "ft", "graft", "graft_retrain", "bitfit", "lora"),
)  # fmt: skip
