"""Figure 6: histograms of the top probability, of the fine-tuned model and of grafts of two sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.analysis.observations import sentences
from skillviz.analysis.scores import histogram, score_table
from skillviz.analysis.tables import notes
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.region_comparisons import piles_up
from skillviz.studies.paper.setting import SettingRow, sizes_row
from skillviz.studies.study_observations import of_results

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results


def entries(scale: Scale) -> list[Entry]:
    """Return regions of figure 2, a small and a larger size, for one task or those requested."""
    sizes = tuple(dict.fromkeys((scale.ladder[0], scale.ladder[-1])))
    return [scale.each(scale.each_seed(task), "stagewise", sizes) for task in scale.some("histogram")]


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return histogram and scores; counts of several mask seeds are averaged."""
    observations = of_results(results)
    return {
        "histogram": histogram(observations),
        "scores": score_table(observations),
        "note": notes(*sentences(observations)),
    }


def differs(scale: Scale) -> list[SettingRow]:
    """Return its two sizes."""
    return [sizes_row(scale, [scale.ladder[0], scale.ladder[-1]])]


FIGURE6 = Experiment(
    name="figure6",
    title="Figure 6: how sure the models are",
    question="Why is the graft better calibrated? How confident is each model?",
    finding="The fine-tuned model's confidence piles up near 1. The graft's is spread out.",
    entries=entries,
    tables=tables,
    makes=("histogram", "scores", "note"),
    claims=(Claim("The fine-tuned model is more than 95% confident more often than the graft.", piles_up),),
    differs=differs,
)
