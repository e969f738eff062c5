"""Figure 12: as Figure 11, from a start of the mask that is ten times as large."""

from __future__ import annotations

from functools import partial

from skillviz.core.localizers.table import STARTS
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.region_comparisons import helps_itself, overlap_more, related_share_more
from skillviz.studies.paper.several_tasks import EMPTY, differs, from_start, tables

SHARE = 1e-4
"""The published size of the start, as a share of the graftable entries."""
COMPARED = ("movement", EMPTY)


FIGURE12 = Experiment(
    name="figure12",
    title="Figure 12: as Figure 8, from a start of 0.01%",
    question="Do regions of several tasks overlap more if the mask starts from a larger common region?",
    finding="The overlap grows further, and its pattern stays, fainter.",
    entries=lambda scale: [from_start(scale, start, SHARE) for start in COMPARED],
    tables=partial(tables, with_unions=False),
    makes=("overlap", "gain", "isolation", "variants", "scores", "stability", "note"),
    claims=(
        Claim(
            "From a larger start, regions overlap more than from no entry.",
            overlap_more(STARTS["movement"], STARTS[EMPTY]),
        ),
        Claim(
            "From a larger start, regions of related tasks overlap more.",
            related_share_more,
        ),
        Claim("From a larger start, a region helps its own task more.", helps_itself),
    ),
    differs=partial(differs, starts=dict.fromkeys(COMPARED, SHARE)),
    shown="overlap and gain",
)
