"""The tables of a study without an experiment: scores, differences, recovered gain, make-up, stability; of a sequence
its stages, of regions of one model of several tasks what they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skillviz.studies import differences, means, resampled, shapes, shared_models, variants
from skillviz.studies import observations as observed
from skillviz.studies.paper import stability
from skillviz.studies.recovered import recovered, without_gain
from skillviz.studies.tables import notes

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.observations import Observed
    from skillviz.studies.results import Results

RIVALS = ("graft_movement", "graft_random", "graft_fish", "ft", "ft_scaled", "pretrained")
MODELS = ("graft_retrain", "bitfit", "lora")
PAIRS = (
    *(("graft", rival) for rival in RIVALS),
    *((model, "ft") for model in MODELS),
    *((model, "graft") for model in MODELS),
)


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """The tables that any study has, from what of it is finished; a row is of one setting, over its seeds."""
    found = _by_readout(observed.of_results(results))
    drawn = resampled.of_test(found)
    stages, of_stages = shared_models.stages(results)
    shared, of_shared = shared_models.overlap(results)
    return {
        "scores": means.scores(found, drawn),
        "differences": differences.paired(found, PAIRS, drawn),
        "recovered": recovered(found, resampled=drawn),
        "makeup": shapes.makeup(results.runs(), variants.named_localizers(results)),
        "stability": stability.of_results(results),
        **stages,
        **shared,
        "note": notes(*observed.told(found), *without_gain(found, drawn), *of_stages, *of_shared),
    }


def _by_readout(found: Sequence[Observed]) -> list[Observed]:
    """The observations with the readout in `setting`, where models of one base have several."""
    readouts: dict[str, set[str]] = {}
    for one in found:
        readouts.setdefault(one.base, set()).add(one.readout)
    return [one.named_by_readout() if len(readouts[one.base]) > 1 else one for one in found]
