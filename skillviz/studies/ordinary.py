"""The tables of a study without an experiment: scores, differences, recovered gain, make-up, stability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.studies import differences, means, observed, resampled, shapes
from skillviz.studies.exp import stability
from skillviz.studies.recovered import recovered
from skillviz.studies.tables import notes

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.results import Results

RIVALS = ("graft_movement", "graft_random", "graft_fish", "ft", "ft_scaled", "pretrained")
MODELS = ("graft_retrain", "bitfit", "lora")
PAIRS = (
    *(("graft", rival) for rival in RIVALS),
    *((model, "ft") for model in MODELS),
    *((model, "graft") for model in MODELS),
)


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """The tables that any study has, from what of it is finished."""
    found = observed.of_results(results)
    drawn = resampled.of_test(found)
    return {
        "scores": means.scores(found, drawn),
        "differences": differences.paired(found, PAIRS, drawn),
        "recovered": recovered(found, resampled=drawn),
        "makeup": shapes.makeup(results.runs()),
        "stability": stability.of_results(results),
        "note": notes(*observed.told(found)),
    }
