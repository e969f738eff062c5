"""Table 5: the graft of a model that was fine-tuned on large data, at three sizes of the region."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.core.formats import counted
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.comparisons import keeps, less, sizes_alike
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.scales import Scale
from skillviz.studies.paper.setting import SettingRow, sizes_row, tasks_row
from skillviz.studies.study_observations import of_results, score_tables

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Entry
    from skillviz.studies.results import Results

PAIRS = (("graft", "ft"), ("graft", "ft_scaled"))
PAPER_STEPS = 1000


def entries(scale: Scale) -> list[Entry]:
    """Return a search of its own for every task and size, so that all of them are paired."""
    return [scale.each(scale.finetuned_model(task), "stagewise", scale.sizes) for task in scale.some("large")]


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return scores, recovered and differences of every task and size."""
    return score_tables(of_results(results), PAIRS, with_gain=True)


def differs(scale: Scale) -> list[SettingRow]:
    """Return its tasks, data, sizes and the steps of its searches."""
    names = scale.some("large")
    shots = scale.caps.get("k_shot")
    here = f"up to {shots:,}" if shots else "all that there are"
    steps = scale.options.get("stagewise", {}).get("steps")
    return [
        tasks_row(scale, "sentiment (MR, CR, MPQA and SST-2), AG News, QNLI and SNLI", names),
        SettingRow("Examples per label", "up to 50,000", here),
        SettingRow(
            "Search steps", f"{PAPER_STEPS:,}, ten times as many", counted(steps, "step") if steps else "the default"
        ),
        sizes_row(scale, scale.sizes, "0.03% to 0.12%"),
    ]


TABLE5 = Experiment(
    name="table5",
    title="Table 5: large training data",
    question="Does a tiny region still hold the skill if the model was fine-tuned on much more data?",
    finding="A region of 0.03% suffices: it grows far less than the data, and its graft is better calibrated.",
    entries=entries,
    tables=tables,
    makes=("scores", "recovered", "differences", "note"),
    published=("table5",),
    claims=(
        Claim("On large data, the graft keeps more than 95% of the fine-tuned score.", keeps(0.95)),
        Claim(
            "On large data, the graft is better calibrated than the fine-tuned model.", less("graft", "ft", "ece", -1)
        ),
        Claim("On large data, the smallest region is as good as one four times as large.", sizes_alike),
    ),
    differs=differs,
    at=Scale.of_large_data,
    shown="per task",
)
