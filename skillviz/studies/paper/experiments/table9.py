"""Table 9: the graft of a causal language model, which is read by the words after a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.comparisons import keeps, less
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.scales import Scale
from skillviz.studies.paper.setting import tasks_row
from skillviz.studies.study_observations import of_results, score_tables

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Entry
    from skillviz.studies.results import Results

PAIRS = (("graft", "ft"), ("graft", "ft_scaled"), ("graft", "graft_movement"), ("graft", "pretrained"))


def entries(scale: Scale) -> list[Entry]:
    """Return the default search and top movement at the same sizes, for every task and sample of its training data."""
    models = [scale.finetuned_model(task) for task in scale.tasks]
    return [scale.search(model, localizer) for model in models for localizer in ("stagewise", "movement")]


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return scores, recovered and differences of every task."""
    return score_tables(of_results(results), PAIRS, with_gain=True)


TABLE9 = Experiment(
    name="table9",
    title="Table 9: a causal language model",
    question="Does a tiny region hold the skill of a causal language model too, and is its graft better calibrated?",
    finding="Graft and fine-tuned GPT-2 are close, with a region of 0.05%, five times that of RoBERTa.",
    entries=entries,
    tables=tables,
    makes=("scores", "recovered", "differences", "note"),
    published=("table9",),
    claims=(
        Claim("In a causal model, the graft keeps more than 95% of the fine-tuned score.", keeps(0.95)),
        Claim(
            "In a causal model, the graft is better calibrated than the fine-tuned one.", less("graft", "ft", "ece", -1)
        ),
    ),
    differs=lambda scale: [tasks_row(scale, "twelve", scale.tasks)],
    at=Scale.of_causal_model,
    shown="per task",
)
