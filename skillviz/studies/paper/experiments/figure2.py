"""Figure 2: accuracy by size of the region, for searched regions, top movement and random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.comparisons import curves_meet, less
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.setting import SettingRow, sizes_row
from skillviz.studies.study_observations import of_results, score_tables

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results

PAIRS = (("graft", "graft_movement"), ("graft", "graft_random"), ("graft_movement", "graft_random"))


def entries(scale: Scale) -> list[Entry]:
    """Return a run for each size of the search and of top movement, so that all of them are paired.

    The largest sizes are the main study's; random regions need one run per seed. The published search costs most, so it
    runs on a few tasks. Its size as published is an outcome; `learned-ranked` is cut at the requested size.
    """
    runs = []
    for task in scale.some("curves"):
        model, others = scale.each_seed(task), scale.others(task)
        runs += [scale.each(model, name, scale.curve) for name in ("stagewise", "movement")]
        runs += [scale.search(model, name, others=others) for name in ("stagewise", "movement")]
        runs.append(scale.search(model, "random", scale.main_first(scale.curve)))
        if task in scale.some("few"):
            runs.append(scale.search(model, "learned-ranked", scale.main_first(scale.ladder)))
            runs.append(scale.search(model, "learned", scale.sizes[:1]))
    return runs


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return scores at every size, and the searched region's lead at equal size."""
    return score_tables(of_results(results), PAIRS)


def differs(scale: Scale) -> list[SettingRow]:
    """Return the sizes of its curves."""
    return [sizes_row(scale, [*scale.curve, *scale.sizes], "a curve of sizes")]


FIGURE2 = Experiment(
    name="figure2",
    title="Figure 2: searched, top movement and random regions by size",
    question="How large must a region be to hold the skill, depending on how it is chosen?",
    finding="The searched region is far better at small sizes. At large sizes the methods are equal.",
    entries=entries,
    tables=tables,
    makes=("scores", "differences", "note"),
    published=("figures", "table2"),
    claims=(
        Claim("At equal size the search beats top movement.", less("graft", "graft_movement")),
        Claim("At equal size the search beats random regions.", less("graft", "graft_random")),
        Claim("The lead over top movement shrinks from the smallest to the largest size.", curves_meet),
    ),
    differs=differs,
    shown="curves",
)
