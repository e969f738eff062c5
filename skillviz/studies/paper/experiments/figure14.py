"""Figure 14: as Figure 13, with an l1 penalty on the movement, and without it for comparison."""

from __future__ import annotations

from functools import partial

from skillviz.models.finetune.recipes import RECIPES
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.region_comparisons import helps_itself, overlap_alike, related_share_more
from skillviz.studies.paper.several_tasks import differs, entry, tables

WITH_L1, WITHOUT = "adamw-l1", "adamw"


FIGURE14 = Experiment(
    name="figure14",
    title="Figure 14: as Figure 8, with AdamW and l1",
    question="Does an l1 penalty separate the regions of several tasks further?",
    finding="It changes little.",
    entries=lambda scale: [entry(scale, optimizer) for optimizer in (WITH_L1, WITHOUT)],
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
