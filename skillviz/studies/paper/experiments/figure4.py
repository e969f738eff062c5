"""Figure 4: the biases alone, and zeros in place of the base's values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skillviz.studies import differences, means, observations, resampled
from skillviz.studies.tables import notes

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Scale
    from skillviz.studies.results import Results

PAIRS = (("graft", "graft_biases"), ("graft", "graft_lottery"), ("graft_biases", "pretrained"), ("graft_biases", "ft"))
LOTTERY = ("10%", "30%", "50%", "90%")
WITHIN = ("0.1%", "0.3%")
"""Of all graftable entries: biases are about a hundredth of a small model."""


def build(scale: Scale) -> list[dict[str, Any]]:
    """One task (two of real data, or those asked for): all biases, the best of them, the lottery ticket to 90 %."""
    entries = []
    for task in scale.some("one" if scale.name == "demo" else "two", 2):
        member = scale.first(task)
        within = {"options": {"within": "biases"}, "label": "within biases"}
        entries += [
            scale.grafts(task),
            scale.search(member, "biases", scale.sizes[:1]),
            scale.search(member, "learned-ranked", scale.within_biases, **within),
            scale.search(member, "lottery", LOTTERY),
        ]
    return entries


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """scores and differences; the biases' search counts as graft_biases of the localizer learned-ranked."""
    found = [one for one in observations.of_results(results) if one.task == one.id_task]
    drawn = resampled.of_test(found)
    return {
        "scores": means.scores(found, drawn),
        "differences": differences.paired(found, PAIRS, drawn),
        "note": notes(
            "Lottery: embeddings and head are kept, all other entries outside the region are zero, and nothing is "
            "trained again; the shares are of graftable entries.",
            *observations.told(found),
        ),
    }
