"""Figure 13: regions in one model of several tasks that was trained with AdamW, without an l1 penalty."""

from __future__ import annotations

from functools import partial

from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.region_comparisons import gains, helps_itself, related_share_more
from skillviz.studies.paper.several_tasks import differs, entry, tables

OPTIMIZER = "adamw"
MOST = 0.5
"""The share of the gain from which on a region has most of it; the paper states no number."""


FIGURE13 = Experiment(
    name="figure13",
    title="Figure 13: as Figure 8, with AdamW",
    question="Do the regions of several tasks separate in a model that was trained with AdamW?",
    finding="They do, though a model of one task needs the l1 penalty for it.",
    entries=lambda scale: [entry(scale, OPTIMIZER)],
    tables=partial(tables, with_unions=False),
    makes=("overlap", "gain", "isolation", "scores", "stability", "note"),
    claims=(
        Claim("With AdamW, a task's region recovers most of its gain.", gains(MOST, False, False)),
        Claim("With AdamW, regions of related tasks overlap more.", related_share_more),
        Claim("With AdamW, a region helps its own task more.", helps_itself),
    ),
    differs=partial(differs, optimizer=OPTIMIZER),
    shown="overlap and gain",
)
