"""Table 1, and LoRA of Table 6: a graft, its region trained anew from the base, BitFit, LoRA, full fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skillviz.studies import differences, means, observations, resampled
from skillviz.studies.tables import notes

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Scale
    from skillviz.studies.results import Results

SMALL = ("bitfit", "lora")
"""Recipes that train few numbers."""
SMALL_SEEDS = [0, 1, 2]
PAIRS = (
    ("graft", "ft"), ("graft_retrain", "ft"), ("bitfit", "ft"), ("lora", "ft"),
    ("graft_retrain", "graft"), ("bitfit", "graft"), ("lora", "graft"), ("graft_retrain", "bitfit"),
)  # fmt: skip
LORA_NOTE = (
    "LoRA: `touched` counts the entries of its low-rank factors, which are what is trained; merged, they change every "
    "entry of the query and value matrices."
)


def build(scale: Scale) -> list[dict[str, Any]]:
    """Four tasks: grafts, their regions re-trained (one a mask seed), three BitFit and three LoRA models."""
    entries = []
    for task in scale.some("four"):
        entries += [scale.grafts(task), scale.retrained(task), *small(scale, task)]
    return entries


def small(scale: Scale, task: str, also: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Entries of the models that train few numbers, three seeds each, scored on these files too."""
    return [scale.scored(scale.member(task, recipe, seed=SMALL_SEEDS), also) for recipe in SMALL]


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """scores and differences of the methods on their own tasks."""
    found = [one for one in observations.of_results(results) if one.task == one.id_task]
    drawn = resampled.of_test(found)
    return {
        "scores": means.scores(found, drawn),
        "differences": differences.paired(found, PAIRS, drawn),
        "note": notes(LORA_NOTE, *observations.told(found)),
    }
