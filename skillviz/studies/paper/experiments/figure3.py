"""Figure 3: does a model with a classification head localize as well as one that is asked by a prompt?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skillviz.studies import differences, means, observations, resampled
from skillviz.studies.tables import notes

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Scale
    from skillviz.studies.results import Results

PAIRS = (("graft", "graft_movement"), ("graft", "ft"))
HEAD_SEED = 0


def build(scale: Scale) -> list[dict[str, Any]]:
    """Two tasks (or those asked for) with each readout: the scale's own, and the head where that is another."""
    entries = []
    for task in scale.some("two", 2):
        entries += [scale.grafts(task), scale.search(scale.member(task), "movement", others=scale.others(task))]
        if scale.readout != "head":
            head = scale.member(task, readout="head", head="linear", seed=HEAD_SEED)
            entries += [scale.search(head, name) for name in ("stagewise", "movement")]
    return entries


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """scores and differences by readout: `setting` names the readout beside the training data."""
    found = [one.named_by_readout() for one in observations.of_results(results) if one.task == one.id_task]
    drawn = resampled.of_test(found)
    return {
        "scores": means.scores(found, drawn),
        "differences": differences.paired(found, PAIRS, drawn),
        "note": notes(
            "The head readout's pre-trained state has the fine-tuned head: its accuracy is not that of chance.",
            *observations.told(found),
        ),
    }
