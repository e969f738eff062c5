"""Figure 8: the overlap of regions in a model of several tasks, and the gain of a region or a union on every task."""

from __future__ import annotations

from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.region_comparisons import gains, helps_itself, related_share_more
from skillviz.studies.paper.several_tasks import differs, entry, tables

FIGURE8 = Experiment(
    name="figure8",
    title="Figure 8: regions in one model of several tasks",
    question="Do the regions of several tasks overlap? How much does a region, or a union, give each task?",
    finding=(
        "Regions hardly overlap, though more for related tasks. A region helps its own task and related ones. A union "
        "helps its members most, even more after purification."
    ),
    entries=lambda scale: [entry(scale)],
    tables=tables,
    makes=("overlap", "gain", "isolation", "scores", "stability", "note"),
    claims=(
        Claim("Regions of related tasks overlap more than those of unrelated ones.", related_share_more),
        Claim("A region helps its own task more than the regions of unrelated tasks do.", helps_itself),
        Claim(
            "The union of a group's regions recovers at least 70% of each task's gain.",
            gains(0.7, True, False),
            "relative gain kept by the union, about",
        ),
        Claim(
            "After purification the union recovers at least 80%.",
            gains(0.8, True, True),
            "relative gain after purification, about",
        ),
    ),
    differs=differs,
    shown="overlap and gain",
)
