"""How much a region depends on luck: mask seeds and data seeds of a study's runs, and bootstrap samples."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from skillviz.core.region import Region
from skillviz.core.stability import Stability, stability
from skillviz.runs.run import Run
from skillviz.studies.observations import GIVEN

if TYPE_CHECKING:
    from skillviz.runs.session import Session
    from skillviz.studies.results import Results

MASK, DATA, BOOTSTRAP = SOURCES = ("mask seeds", "data seeds", "bootstrap")
RESAMPLES, EXAMPLES = 8, 192
OF_MEMBER = ("recipe", "asked")


def of_results(results: Results) -> pd.DataFrame:
    """The table `stability` of a study's runs over their seeds; nothing is computed but from stored regions."""

    def labels(run: Run) -> dict[str, Any]:
        member = results.finetuned_of(run)
        asked = None if member is None else member.model_copy(update={"seed": 0, "data_seed": 0}).json_text()
        return {**results.entry(run), "asked": asked}

    return pd.DataFrame(stability_rows(None, results.runs(), labels))


def stability_rows(
    session: Session | None, runs: Iterable[Run], labels: Callable[[Run], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """One row a model, task, localizer, size and source: mean IoU of two regions, its jackknife interval, and chance.

    `labels` are those of a run's step. Mask seeds are told on the first fine-tuned model, data seeds at its mask seed
    and fine-tuning seed. The bootstrap needs the models: it is left out without a session. Its regions are of the
    linearized localizer whatever the runs' own is, of the first run's size.
    """
    rows, bootstrapped = [], set[str]()
    for group in _groups(runs, labels).values():
        told = {
            "base": group[0].spec.base,
            "recipe": str(labels(group[0]).get("recipe", GIVEN)),
            "task": group[0].record.task_name,
        }
        for source, own in ((MASK, _mask_seeds(group)), (DATA, _data_seeds(group, labels))):
            regions = [run.region() for run in own]
            # a size that is an outcome may be that of no entry at all
            if len(regions) > 1 and all(region.size for region in regions):
                rows.append({**told, **row(source, group[0].spec.localizer, regions, stability(regions))})
        if session is not None and told["task"] not in bootstrapped:
            bootstrapped.add(told["task"])
            regions = resampled(session, group[0])
            rows.append({**told, **row(BOOTSTRAP, "linearized", regions, stability(regions))})
    return rows


def resampled(session: Session, run: Run) -> list[Region]:
    """The linearized regions of bootstrap samples of the run's training examples, of the run's size."""
    from skillviz.core.localizers.table import LinearizedOptions
    from skillviz.core.stability import bootstrap_regions

    pair, encoded = session.pair(run.spec), session.encoded(run.spec)
    problem, options = pair.problem(encoded["train"]), LinearizedOptions(examples=EXAMPLES)
    return list(bootstrap_regions(problem, run.record.size or 1, resamples=RESAMPLES, options=options).regions)


def row(source: str, localizer: str, regions: Sequence[Region], found: Stability) -> dict[str, Any]:
    """What a row of the table says beside base, recipe and task."""
    size = sum(region.size for region in regions) / len(regions)
    return {
        "source": source, "localizer": localizer, "size": size, "share": size / regions[0].d,
        "iou": found.iou, "low": found.low, "high": found.high, "chance": found.chance, "pairs": found.pairs,
    }  # fmt: skip


def _groups(runs: Iterable[Run], labels: Callable[[Run], Mapping[str, Any]]) -> Mapping[str, list[Run]]:
    """The runs that differ in their seeds only: in those of mask, data and fine-tuning."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        asked = run.spec.model_dump(mode="json", exclude={"seed", "data_seed", "finetuned", "others", "interpolation"})
        given = {} if "recipe" in labels(run) else {"finetuned": run.spec.finetuned}
        member = {name: labels(run).get(name) for name in OF_MEMBER}
        found.setdefault(json.dumps([asked, given, member], sort_keys=True, default=str), []).append(run)
    return found


def _mask_seeds(group: Sequence[Run]) -> list[Run]:
    """One run for each mask seed on the first fine-tuned model."""
    same = [run for run in group if run.spec.finetuned == group[0].spec.finetuned]
    return _first_of(same, lambda run: run.spec.seed)


def _data_seeds(group: Sequence[Run], labels: Callable[[Run], Mapping[str, Any]]) -> list[Run]:
    """One run for each data seed, of the first mask seed and the first fine-tuning seed."""
    first = group[0]
    seeds = first.spec.seed, labels(first).get("member_seed")
    return _first_of(
        [run for run in group if (run.spec.seed, labels(run).get("member_seed")) == seeds],
        lambda run: run.spec.data_seed,
    )


def _first_of(runs: Iterable[Run], seed: Callable[[Run], int]) -> list[Run]:
    found: dict[int, Run] = {}
    for run in runs:
        found.setdefault(seed(run), run)
    return list(found.values())
