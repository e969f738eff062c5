"""The shared part of Tables 1, 3, 6 and 7: grafts, regions re-trained from the base, BitFit, LoRA and adapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skillviz.models.finetune.recipes import RANKS, RECIPES, WIDTHS
from skillviz.studies.study_observations import of_results, score_tables

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.analysis.observations import Observation
    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results

OF_A_BASE = ("bitfit", "lora")
"""The recipes of Tables 1 and 3 that need no region."""
SIZES = {name: RANKS if row.rank is not None else WIDTHS for name, row in RECIPES.items() if row.adds_parameters}
"""The ranks and widths of Tables 6 and 7, by recipe."""
SEEDS = [0, 1, 2]
PAIRS = (
    ("graft", "ft"), ("graft_retrain", "ft"), ("bitfit", "ft"), ("lora", "ft"),
    ("graft_retrain", "graft"), ("bitfit", "graft"), ("lora", "graft"), ("graft_retrain", "bitfit"),
    *((RECIPES[name].method, other) for other in ("ft", "graft") for name in SIZES if name not in OF_A_BASE),
)  # fmt: skip
NOTES = {  # by a method that the study has
    "lora": "LoRA: `touched` counts the entries of its low-rank factors, which are what is trained; merged, they "
    "change every entry of the query and value matrices.",
    "adapter_houlsby": "Adapters: `touched` counts their parameters, which lie between the base's. The base's own are "
    "unchanged, also LayerNorm's, so a model with adapters is no graft.",
}


def entries(scale: Scale, task: str, also: Sequence[str] = ()) -> list[Entry]:
    """Return a task's grafts, their regions re-trained (one per mask seed), three BitFit and three LoRA models.

    The trained models are scored on the task files `also` too.
    """
    models = [scale.scored(scale.finetuned_model(task, recipe, seed=SEEDS), also) for recipe in OF_A_BASE]
    return [scale.grafts(task), scale.retrained(task, also), *models]


def by_size(scale: Scale, task: str, also: Sequence[str] = ()) -> list[Entry]:
    """Return a task's LoRA models of every rank and adapters of every width, three of each.

    `entries` has the same LoRA models of the default rank.
    """
    return [
        scale.scored(scale.finetuned_model(task, recipe, seed=SEEDS, **chosen), also)
        for recipe, sizes in SIZES.items()
        for name, usual in [RECIPES[recipe].capacity or ("", 0)]
        for chosen in ({} if size == usual else {name: size} for size in sizes)
    ]


def tables_of_own_task(results: Results) -> dict[str, pd.DataFrame]:
    """Return scores and differences of the methods on their own tasks, and notes."""
    return _tables([one for one in of_results(results) if one.task == one.id_task])


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return the same on their own tasks and on other data."""
    return _tables(of_results(results))


def _tables(observations: Sequence[Observation]) -> dict[str, pd.DataFrame]:
    methods = {one.method for one in observations}
    return score_tables(observations, PAIRS, *(note for method, note in NOTES.items() if method in methods))
