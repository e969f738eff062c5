"""Figures 9 and 10: the share of the regions in each layer and kind of module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.analysis.run_tables import composition
from skillviz.analysis.tables import notes
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.region_comparisons import denser, in_the_middle

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results

LOCALIZER = "stagewise"


def entries(scale: Scale) -> list[Entry]:
    """Return one region per task and mask seed: the runs of table 2, which are not made twice."""
    return [scale.grafts(task) for task in scale.tasks]


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return composition and note; figure 9 shows the composition by layer, figure 10 by kind."""
    runs = [run for run in results.runs() if run.spec.localizer == LOCALIZER]
    seeds = {(run.spec.task, run.spec.seed) for run in runs}
    told = f"{len(runs)} regions of {len({task for task, _ in seeds})} tasks, each run's main size."
    return {"composition": composition(runs), "note": notes(told)}


FIGURE9 = Experiment(
    name="figure9",
    title="Figure 9: where regions lie, by layer",
    question="Which layers hold the regions?",
    finding="Mostly the middle layers, except for AG News. LayerNorm entries are spread evenly.",
    entries=entries,
    tables=tables,
    makes=("composition", "note"),
    claims=(Claim("Regions are denser in the middle half of the layers.", in_the_middle),),
)

FIGURE10 = Experiment(
    name="figure10",
    title="Figure 10: where regions lie, by kind of module",
    question="Which kinds of modules hold the regions?",
    finding="Mostly value matrices, first feed-forward layers and LayerNorms.",
    entries=entries,
    tables=tables,
    makes=("composition", "note"),
    claims=(
        Claim("Value matrices are denser than average.", denser(("value",))),
        Claim("The first feed-forward layer is denser than average.", denser(("MLP in",))),
        Claim("LayerNorm is denser than average.", denser(("LayerNorm",))),
    ),
    shown="kinds",
)
