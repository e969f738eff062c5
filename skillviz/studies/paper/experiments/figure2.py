"""Figure 2: accuracy by the size of the region, for searched ones, top movement and random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skillviz.studies import differences, means, observations, resampled
from skillviz.studies.tables import notes

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Scale
    from skillviz.studies.results import Results

PAIRS = (("graft", "graft_movement"), ("graft", "graft_random"), ("graft_movement", "graft_random"))


def build(scale: Scale) -> list[dict[str, Any]]:
    """Two tasks (or those asked for), a run for each size of the search and of top movement: all of them are paired.

    The largest sizes are those of the main study; random regions are one run a seed. The published search is there in
    both forms: as published its size is an outcome, `learned-ranked` is cut at the size asked for.
    """
    entries = []
    for task in scale.some("two", 2):
        member, others = scale.each_seed(task), scale.others(task)
        entries += [scale.each(member, name, scale.curve) for name in ("stagewise", "movement")]
        entries += [scale.search(member, name, others=others) for name in ("stagewise", "movement")]
        entries.append(scale.search(member, "random", scale.main_first(scale.curve)))
        entries.append(scale.search(member, "learned-ranked", scale.main_first(scale.ladder)))
        entries.append(scale.search(member, "learned", scale.sizes[:1]))
    return entries


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """scores of every size, and what the searched region is better by at equal size."""
    found = observations.of_results(results)
    drawn = resampled.of_test(found)
    return {
        "scores": means.scores(found, drawn),
        "differences": differences.paired(found, PAIRS, drawn),
        "note": notes(*observations.told(found)),
    }
