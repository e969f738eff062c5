"""Table 2: does a tiny region hold the fine-tuned skill, and is its graft better calibrated?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skillviz.studies import differences, means, observations, resampled, shapes
from skillviz.studies.paper import stability
from skillviz.studies.recovered import recovered, without_gain
from skillviz.studies.tables import notes

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Scale
    from skillviz.studies.results import Results

PAIRS = (
    ("graft", "ft"), ("graft", "ft_scaled"), ("graft", "graft_movement"), ("graft", "pretrained"), ("complement", "ft"),
)  # fmt: skip


def build(scale: Scale) -> list[dict[str, Any]]:
    """Every task: the default search and top movement at the same sizes; on two tasks the published search too.

    The published search has one fine-tuning seed: its size is an outcome, and it costs most. Of the tasks that a user
    asked for it takes the first two.
    """
    published = scale.some("two")[:2] if scale.name != "demo" else ()
    entries = []
    for task in scale.tasks:
        others = scale.others(task)
        entries += [scale.grafts(task), scale.search(scale.member(task), "movement", others=others)]
        if task in published:
            entries.append(scale.search(scale.first(task), "learned", scale.sizes[:1]))
    return entries


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """scores, recovered, differences, makeup and stability of every task."""
    runs = results.runs()
    found = observations.of_results(results)
    drawn = resampled.of_test(found)
    return {
        "scores": means.scores(found, drawn),
        "recovered": recovered(found, resampled=drawn),
        "differences": differences.paired(found, PAIRS, drawn),
        "makeup": shapes.makeup(runs),
        "stability": stability.of_results(results),
        "note": notes(*observations.told(found), *without_gain(found, drawn)),
    }
