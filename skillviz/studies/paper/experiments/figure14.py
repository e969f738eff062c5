"""Figure 14: as Figure 13, with an l1 penalty on the movement, and without it for comparison."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from skillviz.models.finetune.recipes import RECIPES
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.region_comparisons import helps_itself, overlap_alike, related_share_more
from skillviz.studies.paper.several_tasks import differs, entry, tables

if TYPE_CHECKING:
    from skillviz.studies.paper.scales import Entry, Scale

WITH_L1, WITHOUT = "adamw-l1", "adamw"


def entries(scale: Scale) -> list[Entry]:
    """Return the models of all tasks trained with AdamW, with and without l1; the latter is Figure 13's."""
    return [entry(scale, optimizer) for optimizer in (WITH_L1, WITHOUT)]


FIGURE14 = Experiment(
    name="figure14",
    title="Figure 14: as Figure 8, with AdamW and l1",
    question="Does an l1 penalty separate the regions of several tasks further?",
    finding="It changes little.",
    entries=entries,
    tables=partial(tables, with_unions=False),
    makes=("overlap", "gain", "isolation", "variants", "scores", "stability", "note"),
    claims=(
        Claim(
            "The l1 penalty changes overlap by at most 3 points.",
            overlap_alike(RECIPES[WITH_L1].title, RECIPES[WITHOUT].title),
        ),
        Claim("With l1, regions of related tasks overlap more.", related_share_more),
        Claim("With l1, a region helps its own task more.", helps_itself),
    ),
    differs=partial(differs, optimizer=WITH_L1),
    shown="overlap and gain",
)
