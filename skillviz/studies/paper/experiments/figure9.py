"""Figures 9 and 10: in which layers and which kinds of modules do the regions lie?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skillviz.studies import shapes
from skillviz.studies.tables import notes

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Scale
    from skillviz.studies.results import Results

LOCALIZER = "stagewise"


def build(scale: Scale) -> list[dict[str, Any]]:
    """One region a task and mask seed: the runs of table 2, which are not made twice."""
    return [scale.grafts(task) for task in scale.tasks]


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """makeup and note; by layer it is figure 9, by kind figure 10."""
    runs = [run for run in results.runs() if run.spec.localizer == LOCALIZER]
    seeds = {(run.spec.task, run.spec.seed) for run in runs}
    told = f"{len(runs)} regions of {len({task for task, _ in seeds})} tasks, each run's main size."
    return {"makeup": shapes.makeup(runs), "note": notes(told)}
