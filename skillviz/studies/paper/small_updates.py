"""The shared part of Tables 1 and 3: grafts, their regions re-trained from the base, BitFit and LoRA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skillviz.analysis.differences import paired
from skillviz.analysis.observations import sentences
from skillviz.analysis.scores import score_table
from skillviz.analysis.seeds import resampled_tests
from skillviz.analysis.tables import notes
from skillviz.models.finetune.recipes import FEW, RECIPES

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.analysis.observations import Observation
    from skillviz.studies.paper.scales import Entry, Scale

OF_A_BASE = tuple(name for name in FEW if not RECIPES[name].needs_region)
SEEDS = [0, 1, 2]
PAIRS = (
    ("graft", "ft"), ("graft_retrain", "ft"), ("bitfit", "ft"), ("lora", "ft"),
    ("graft_retrain", "graft"), ("bitfit", "graft"), ("lora", "graft"), ("graft_retrain", "bitfit"),
)  # fmt: skip
LORA_NOTE = (
    "LoRA: `touched` counts the entries of its low-rank factors, which are what is trained; merged, they change every "
    "entry of the query and value matrices."
)


def entries(scale: Scale, task: str, also: Sequence[str] = ()) -> list[Entry]:
    """Return a task's grafts, their regions re-trained (one per mask seed), three BitFit and three LoRA models.

    The trained models are scored on the task files `also` too.
    """
    models = [scale.scored(scale.finetuned_model(task, recipe, seed=SEEDS), also) for recipe in OF_A_BASE]
    return [scale.grafts(task), scale.retrained(task, also), *models]


def tables(observations: Sequence[Observation]) -> dict[str, pd.DataFrame]:
    """Return scores and differences of the methods, and notes."""
    drawn = resampled_tests(observations)
    return {
        "scores": score_table(observations, drawn),
        "differences": paired(observations, PAIRS, drawn),
        "note": notes(LORA_NOTE, *sentences(observations)),
    }
