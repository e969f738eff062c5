"""Table 1: the graft of a region, the region trained anew from the base, and BitFit, beside full fine-tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skillviz.studies import differences, means, observed, resampled
from skillviz.studies.tables import notes

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.results import Results
    from skillviz.studies.scales import Scale

BITFIT_SEEDS = [0, 1, 2]
PAIRS = (
    ("graft", "ft"), ("graft_retrain", "ft"), ("bitfit", "ft"),
    ("graft_retrain", "graft"), ("bitfit", "graft"), ("graft_retrain", "bitfit"),
)  # fmt: skip


def build(scale: Scale) -> list[dict[str, Any]]:
    """Four tasks: grafts, their regions re-trained (one a mask seed), and three BitFit models."""
    entries = []
    for task in scale.some("four"):
        bitfit = scale.member(task, "bitfit", seed=BITFIT_SEEDS)
        entries += [scale.grafts(task), scale.retrained(task), scale.scored(bitfit)]
    return entries


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """scores and differences of the four methods on their own tasks."""
    found = [one for one in observed.of_results(results) if one.task == one.id_task]
    drawn = resampled.of_test(found)
    return {
        "scores": means.scores(found, drawn),
        "differences": differences.paired(found, PAIRS, drawn),
        "note": notes(*observed.told(found)),
    }
