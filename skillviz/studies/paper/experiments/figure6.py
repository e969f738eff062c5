"""Figure 6: histograms of the top probability, of the fine-tuned model and of grafts of two sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skillviz.studies import means, observations, shapes
from skillviz.studies.tables import notes

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Scale
    from skillviz.studies.results import Results


def build(scale: Scale) -> list[dict[str, Any]]:
    """One task (QNLI, or what stands for it; or those asked for): regions of figure 2, a small and a larger size."""
    sizes = scale.ladder[0], scale.ladder[-1]
    return [scale.each(scale.each_seed(task), "stagewise", sizes) for task in scale.some("histogram", 1)]


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """histogram and scores; counts of several mask seeds are averaged."""
    found = observations.of_results(results)
    return {
        "histogram": shapes.histogram(found),
        "scores": means.scores(found),
        "note": notes(*observations.told(found)),
    }
