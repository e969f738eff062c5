"""What Tables 1 and 3 have in common: grafts, their regions trained again from the base, BitFit and LoRA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skillviz.studies import differences, means, observations, resampled
from skillviz.studies.tables import notes

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.observations import Observed
    from skillviz.studies.paper.scales import Entry, Scale

RECIPES = ("bitfit", "lora")
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
    """A task's grafts, their regions re-trained (one a mask seed), three BitFit and three LoRA models.

    The trained models are scored on the task files `also` too.
    """
    models = [scale.scored(scale.member(task, recipe, seed=SEEDS), also) for recipe in RECIPES]
    return [scale.grafts(task), scale.retrained(task, also), *models]


def tables(observed: Sequence[Observed]) -> dict[str, pd.DataFrame]:
    """scores and differences of the methods, and notes."""
    drawn = resampled.of_test(observed)
    return {
        "scores": means.scores(observed, drawn),
        "differences": differences.paired(observed, PAIRS, drawn),
        "note": notes(LORA_NOTE, *observations.told(observed)),
    }
