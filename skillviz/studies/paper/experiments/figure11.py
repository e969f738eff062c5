"""Figure 11: regions in one model of several tasks, from a small common start of the mask instead of the empty one."""

from __future__ import annotations

from functools import partial

from skillviz.core.localizers.table import STARTS
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.region_comparisons import helps_itself, overlap_more, related_share_more
from skillviz.studies.paper.several_tasks import EMPTY, differs, from_start, tables

SHARE = 1e-5
"""The published size of the start, as a share of the graftable entries; random and lowest layer are controls."""


FIGURE11 = Experiment(
    name="figure11",
    title="Figure 11: as Figure 8, from a start of 0.001%",
    question="Do regions of several tasks overlap more if the mask starts from a small common region?",
    finding="The overlap grows, because regions share the start, and its pattern stays, fainter.",
    entries=lambda scale: [from_start(scale, start, SHARE) for start in STARTS],
    tables=partial(tables, with_unions=False),
    makes=("overlap", "gain", "isolation", "variants", "scores", "stability", "note"),
    claims=(
        Claim(
            "From a small start, regions overlap more than from no entry.",
            overlap_more(STARTS["movement"], STARTS[EMPTY]),
        ),
        Claim("From a small start, regions of related tasks overlap more.", related_share_more),
        Claim("From a small start, a region helps its own task more.", helps_itself),
    ),
    differs=partial(differs, starts=dict.fromkeys(STARTS, SHARE)),
    shown="overlap and gain",
)
