"""Table 3: grafts, re-trained regions, BitFit and LoRA on data that they were not tuned on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skillviz.studies import differences, means, observations, resampled
from skillviz.studies.paper.experiments.table1 import LORA_NOTE, PAIRS, small
from skillviz.studies.tables import notes

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Scale
    from skillviz.studies.results import Results


def build(scale: Scale) -> list[dict[str, Any]]:
    """The tasks that other data ask the same of: as table 1, scored on those data too."""
    entries = []
    for task in scale.some("transfer"):
        others = scale.others(task)
        entries += [scale.grafts(task), scale.retrained(task, others), *small(scale, task, others)]
    return entries


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """scores and differences of the methods, on their own task and on other data."""
    found = observations.of_results(results)
    drawn = resampled.of_test(found)
    return {
        "scores": means.scores(found, drawn),
        "differences": differences.paired(found, PAIRS, drawn),
        "note": notes(LORA_NOTE, *observations.told(found)),
    }
