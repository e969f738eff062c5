"""Table 8: compare the searched region with the FISH mask, and grafts of FISH and of random masks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.analysis.overlaps import overlap_of_localizers
from skillviz.core.localizers.table import FisherOptions
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.comparisons import less
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.region_comparisons import shares_little
from skillviz.studies.paper.setting import SettingRow, sizes_row, tasks_row
from skillviz.studies.study_observations import of_results, score_tables

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results

PAIRS = tuple(("graft", name) for name in ("graft_fish", "graft_random", "graft_movement", "pretrained"))
FIRST = "Overlaps are between regions of the first fine-tuned model of each task; scores are over all of them."


def entries(scale: Scale) -> list[Entry]:
    """Return runs at three sizes for a few tasks (or those requested): a run for each size of the search.

    FISH and random masks are cut from one order at every size, so one run per seed is enough.
    """
    runs = []
    for task in scale.some("few"):
        model = scale.each_seed(task)
        runs += [scale.each(model, name, scale.ladder) for name in ("stagewise", "movement")]
        runs.append(scale.search(model, "fisher", scale.main_first(scale.ladder)))
        runs.append(scale.search(model, "random", scale.main_first(scale.curve)))
    return runs


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return scores, differences, and the IoU of the searched region with each rival by task and size."""
    runs = results.runs()
    first: dict[str, str] = {}  # regions of two models of a task are not compared
    compared = [run for run in runs if first.setdefault(run.spec.task, run.spec.finetuned) == run.spec.finetuned]
    left = [FIRST] if len(compared) < len(runs) else []
    return {**score_tables(of_results(results), PAIRS, *left), "overlap": overlap_of_localizers(compared)}


def differs(scale: Scale) -> list[SettingRow]:
    """Return its tasks, its sizes, and the number of examples for the FISH mask."""
    examples = scale.options.get("fisher", {}).get("options", {}).get("examples", FisherOptions().examples)
    return [
        tasks_row(scale, "four", scale.some("few")),
        sizes_row(scale, scale.ladder, "0.01%, 0.1% and 1%"),
        SettingRow("FISH mask", "over a number of examples not stated", f"over {examples:,} examples"),
    ]


TABLE8 = Experiment(
    name="table8",
    title="Table 8: is it the Fisher mask?",
    question="Is the searched region just the FISH mask? Is a random region as good?",
    finding="They share about a tenth at most. FISH grafts are worse. Random ones stay at the pre-trained level.",
    entries=entries,
    tables=tables,
    makes=("scores", "overlap", "differences", "note"),
    published=("table8",),
    claims=(
        Claim("The region shares less than 10% of its entries with the FISH mask.", shares_little(0.10)),
        Claim("The graft of the searched region is more accurate than the FISH mask's.", less("graft", "graft_fish")),
        Claim(
            "The graft of the searched region is more accurate than a random region's.", less("graft", "graft_random")
        ),
    ),
    differs=differs,
    methods=("pretrained", "ft", "graft", "graft_fish", "graft_random"),
)
