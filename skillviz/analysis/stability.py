"""The table `stability`: the dependence of a region on mask seeds, data seeds and the sample of examples."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from skillviz.analysis.observations import PAIR_RECIPE
from skillviz.analysis.tables import check
from skillviz.core.region import Region
from skillviz.core.stability import stability
from skillviz.runs.run import Run

MASK, DATA, BOOTSTRAP = SOURCES = ("mask seeds", "data seeds", "bootstrap")
OF_MODEL = ("recipe", "finetuned_spec")
"""Labels that distinguish fine-tuned models, apart from their seeds."""
Labels = Callable[[Run], Mapping[str, Any]]


def stability_of_runs(
    runs: Iterable[Run], labels: Labels, bootstrap: Callable[[Run], Sequence[Region]] | None = None
) -> pd.DataFrame:
    """One row per model, task, localizer, size and source: mean IoU of two regions, its jackknife interval, and chance.

    `labels` returns the labels of a run's step. Mask seeds are compared on the first fine-tuned model, data seeds at
    the first run's mask seed and fine-tuning seed. `bootstrap` finds linearized regions on samples of a run's examples,
    independent of the run's localizer; it is called once per task, for the first run.
    """
    rows, bootstrapped = [], set[str]()
    for group in _groups(runs, labels).values():
        first = group[0]
        model = {"base": first.spec.base, "recipe": str(labels(first).get("recipe", PAIR_RECIPE))}
        model["task"] = first.record.task_name
        for source, those in ((MASK, _mask_seeds(group)), (DATA, _data_seeds(group, labels))):
            regions = [run.region() for run in those]
            # a region whose size is an outcome may be empty
            if len(regions) > 1 and all(region.size for region in regions):
                rows.append({**model, **_row(source, first.spec.localizer, regions)})
        if bootstrap is not None and model["task"] not in bootstrapped:
            bootstrapped.add(model["task"])
            rows.append({**model, **_row(BOOTSTRAP, "linearized", bootstrap(first))})
    return check(pd.DataFrame(rows), "stability")


def _row(source: str, localizer: str, regions: Sequence[Region]) -> dict[str, Any]:
    size, shared = sum(region.size for region in regions) / len(regions), stability(regions)
    return {
        "source": source, "localizer": localizer, "size": size, "share": size / regions[0].d,
        "iou": shared.iou, "low": shared.low, "high": shared.high, **shared.chance.columns(), "pairs": shared.pairs,
    }  # fmt: skip


def _groups(runs: Iterable[Run], labels: Labels) -> Mapping[str, list[Run]]:
    """Groups of runs that differ only in their seeds: of mask, data and fine-tuning."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        fields = run.spec.model_dump(mode="json", exclude={"seed", "data_seed", "finetuned", "others", "interpolation"})
        given = {} if "recipe" in labels(run) else {"finetuned": run.spec.finetuned}
        model = {name: labels(run).get(name) for name in OF_MODEL}
        groups.setdefault(json.dumps([fields, given, model], sort_keys=True, default=str), []).append(run)
    return groups


def _mask_seeds(group: Sequence[Run]) -> list[Run]:
    """One run for each mask seed on the first fine-tuned model."""
    same = [run for run in group if run.spec.finetuned == group[0].spec.finetuned]
    return _first_of(same, lambda run: run.spec.seed)


def _data_seeds(group: Sequence[Run], labels: Labels) -> list[Run]:
    """One run for each data seed, with the first mask seed and the first fine-tuning seed."""
    first = group[0]
    seeds = first.spec.seed, labels(first).get("finetune_seed")
    return _first_of(
        [run for run in group if (run.spec.seed, labels(run).get("finetune_seed")) == seeds],
        lambda run: run.spec.data_seed,
    )


def _first_of(runs: Iterable[Run], seed: Callable[[Run], int]) -> list[Run]:
    first: dict[int, Run] = {}
    for run in runs:
        first.setdefault(seed(run), run)
    return list(first.values())
