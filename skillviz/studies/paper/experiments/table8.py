"""Table 8: is the searched region the FISH mask, and how good are grafts of FISH and of random masks?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skillviz.studies import differences, means, observations, resampled, shapes
from skillviz.studies.tables import notes

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.runs.run import Run
    from skillviz.studies.paper.scales import Scale
    from skillviz.studies.results import Results

PAIRS = tuple(("graft", name) for name in ("graft_fish", "graft_random", "graft_movement", "pretrained"))
FIRST = "Overlaps are between regions of the first fine-tuned model of each task; scores are over all of them."


def build(scale: Scale) -> list[dict[str, Any]]:
    """Two tasks (or those asked for) at three sizes: a run for each size of the search, to compare their regions.

    FISH and random masks are cut from one order at every size, so one run a seed answers all.
    """
    entries = []
    for task in scale.some("two", 2):
        member = scale.each_seed(task)
        entries += [scale.each(member, name, scale.ladder) for name in ("stagewise", "movement")]
        entries.append(scale.search(member, "fisher", scale.main_first(scale.ladder)))
        entries.append(scale.search(member, "random", scale.main_first(scale.curve)))
    return entries


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """scores, differences, and the IoU of the searched region with each rival by task and size."""
    found, runs = observations.of_results(results), results.runs()
    compared = of_first_models(runs)
    left = [FIRST] if len(compared) < len(runs) else []
    drawn = resampled.of_test(found)
    return {
        "scores": means.scores(found, drawn),
        "overlap": shapes.overlap_of_localizers(compared),
        "differences": differences.paired(found, PAIRS, drawn),
        "note": notes(*observations.told(found), *left),
    }


def of_first_models(runs: Sequence[Run]) -> list[Run]:
    """The runs on the first fine-tuned model of each task: regions of two models are not compared."""
    first: dict[str, str] = {}
    return [run for run in runs if first.setdefault(run.spec.task, run.spec.finetuned) == run.spec.finetuned]
