"""The one table of methods that tables of studies score, each with its title, description, color and marker.

A method that is a state of the run's own pair is drawn as that state, and the graft of a localizer that has its own
method as that localizer; the others have their markers here. Does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Method:
    """One row: the value of the columns `method`, `a` and `b`, and its title and marker.

    `title` is used in legends and cells; `phrase` explains it. `state` is the model state whose style it is drawn in;
    `color`, `marker` and `dash` are plotly's.
    """

    name: str
    title: str
    phrase: str
    state: str = ""
    color: str = ""
    marker: str = ""
    dash: str = ""

    @property
    def short_title(self) -> str:
        """The title for a comparison with a graft: without the prefix "graft, "."""
        return self.title.removeprefix("graft, ")


METHODS: Mapping[str, Method] = MappingProxyType({
    row.name: row
    for row in (
        Method("pretrained", "pre-trained", "pre-trained", state="pretrained"),
        Method("graft", "graft", "graft of a searched region", state="grafted"),
        Method(
            "graft_retrain", "region re-trained", "region re-trained from the base",
            color="#1D5FD1", marker="square", dash="longdash",
        ),
        Method("bitfit", "BitFit", "BitFit", color="#8B3FD9", marker="triangle-up", dash="dot"),
        Method("lora", "LoRA", "LoRA", color="#D6247F", marker="pentagon", dash="dashdot"),
        Method(
            "adapter_houlsby", "Houlsby adapters", "adapters after attention and feed-forward part",
            color="#0085AD", marker="triangle-ne", dash="2px,4px",
        ),
        Method(
            "adapter_pfeiffer", "Pfeiffer adapters", "adapters after the feed-forward part",
            color="#7D5F3A", marker="star-triangle-down", dash="9px,3px",
        ),
        Method("ft", "fine-tuned", "fine-tuned (SGD)", state="finetuned"),
        Method(
            "ft_scaled", "temperature-scaled", "fine-tuned, temperature fitted on validation", state="temperature",
        ),
        Method(
            "adamw", "AdamW", "fine-tuned with AdamW",
            color="#7A7D00", marker="hexagon", dash="longdashdot",
        ),
        Method(
            "adamw_l1", "AdamW + L1", "fine-tuned with AdamW and L1 on movement",
            color="#C8143F", marker="octagon", dash="5px,2px",
        ),
        Method(
            "multi_task", "one model, several tasks", "one model fine-tuned on several tasks",
            color="#0085AD", marker="star", dash="8px,3px",
        ),
        Method(
            "continual_naive", "in turn, naive", "tasks one after the other, naive",
            color="#B56576", marker="star-square", dash="3px,3px",
        ),
        Method(
            "continual_graft", "in turn, in regions", "tasks one after the other, each within its region",
            color="#1A7F8E", marker="bowtie", dash="6px,3px",
        ),
        Method(
            "independent", "a model a task", "one fine-tuned model a task",
            color="#7D5F3A", marker="diamond-wide", dash="2px,2px",
        ),
        Method("complement", "complement", "everything fine-tuned but the region", state="complement"),
        Method(
            "graft_movement", "graft, top movement", "graft of the top movement",
        ),
        Method("graft_random", "graft, random", "graft of a random region"),
        Method("graft_fish", "graft, FISH mask", "graft of the FISH mask"),
        Method(
            "graft_matched", "graft, random matched", "graft of a random region, as many a tensor",
        ),
        Method(
            "graft_magnitude", "graft, weight magnitude", "graft of the largest fine-tuned weights",
        ),
        Method(
            "graft_tall_mask", "graft, task-vector threshold", "graft of the largest relative movement",
        ),
        Method(
            "graft_stitch", "graft, Localize-and-Stitch", "graft of the mask of Localize-and-Stitch",
        ),
        Method("graft_l0", "graft, L0 gates", "graft of the gates of diff pruning"),
        Method("graft_dare", "DARE", "random entries with their movement rescaled"),
        Method("graft_biases", "graft, biases", "graft of all biases"),
        Method("graft_lottery", "rest set to zero", "region kept, all other graftable entries zero"),
    )
})  # fmt: skip
