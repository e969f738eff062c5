"""Figure 5: regions of models that were fine-tuned with SGD, with AdamW, and with AdamW and an l1 penalty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.models.finetune.recipes import SGD
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.comparisons import recovers_less
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.setting import SettingRow
from skillviz.studies.study_observations import of_results, score_tables

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results

PAIRS = (("graft", "ft"), ("graft", "adamw"), ("graft", "adamw_l1"), ("graft", "graft_movement"))
ADAMW = ("adamw", "adamw-l1")


def entries(scale: Scale) -> list[Entry]:
    """The default search on the models of three recipes, and top movement, for a few tasks or those requested."""
    runs = []
    for task in scale.some("few"):
        models = [scale.first(task, recipe, **scale.adamw) for recipe in ADAMW]
        runs += [scale.grafts(task), scale.search(scale.finetuned_model(task), "movement", others=scale.others(task))]
        runs += [scale.search(model, name) for model in models for name in ("stagewise", "movement")]
    return runs


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return scores and differences by recipe."""
    observations = [one for one in of_results(results) if one.task == one.id_task]
    return score_tables(
        observations, PAIRS,
        "A share of the gain is of the gain of the recipe's own model, as each reaches another accuracy.",
    )  # fmt: skip


def differs(scale: Scale) -> list[SettingRow]:
    """Return the training of its AdamW models."""
    values = scale.adamw or scale.training
    parts = [f"{values['steps']:,} steps"] if values.get("steps") else []
    parts += [f"at the rate {values['lr']:g}"] if values.get("lr") else ["the best of a grid of rates"]
    return [SettingRow("AdamW", "the rate is not stated", ", ".join(parts) if "grid" in values else " ".join(parts))]


FIGURE5 = Experiment(
    name="figure5",
    title="Figure 5: SGD against AdamW",
    question="Is the skill still localized after fine-tuning with AdamW, or with an L1 penalty on movement?",
    finding="Much less after AdamW. An L1 penalty of 0.001 restores it.",
    entries=entries,
    tables=tables,
    makes=("scores", "differences", "note"),
    claims=(
        Claim("Grafts of models tuned with AdamW recover less of the gain.", recovers_less("adamw", SGD)),
        Claim(
            "With an L1 penalty on the movement, AdamW recovers more of the gain.", recovers_less("adamw", "adamw-l1")
        ),
    ),
    differs=differs,
    shown="recipes",
)
