"""Figure 5: regions of models that were fine-tuned with SGD, with AdamW, and with AdamW and an l1 penalty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skillviz.studies import differences, means, observations, resampled
from skillviz.studies.tables import notes

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Scale
    from skillviz.studies.results import Results

PAIRS = (("graft", "ft"), ("graft", "adamw"), ("graft", "adamw_l1"), ("graft", "graft_movement"))
ADAMW = ("adamw", "adamw-l1")


def build(scale: Scale) -> list[dict[str, Any]]:
    """Two tasks (or those asked for), three ways to fine-tune: the default search on each model, and top movement."""
    entries = []
    for task in scale.some("two", 2):
        members = [scale.first(task, recipe, **scale.adamw) for recipe in ADAMW]
        entries += [scale.grafts(task), scale.search(scale.member(task), "movement", others=scale.others(task))]
        entries += [scale.search(member, name) for member in members for name in ("stagewise", "movement")]
    return entries


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """scores and differences by recipe."""
    found = [one for one in observations.of_results(results) if one.task == one.id_task]
    drawn = resampled.of_test(found)
    return {
        "scores": means.scores(found, drawn),
        "differences": differences.paired(found, PAIRS, drawn),
        "note": notes(
            "A share of the gain is of the gain of the recipe's own model, as each reaches another accuracy.",
            *observations.told(found),
        ),
    }
