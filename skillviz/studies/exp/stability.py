"""How much a region depends on luck: mask seeds and data seeds of a study's runs, and bootstrap samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skillviz.core.region import Region
from skillviz.core.stability import Stability, stability
from skillviz.runs.run import Run

if TYPE_CHECKING:
    from skillviz.runs.session import Session

MASK, DATA, BOOTSTRAP = SOURCES = ("mask seeds", "data seeds", "bootstrap")
RESAMPLES, EXAMPLES = 8, 192


def stability_rows(session: Session | None, runs: Iterable[Run]) -> list[dict[str, Any]]:
    """One row a task, localizer, size and source: mean IoU of two regions, with a jackknife interval, and chance.

    The bootstrap needs the models: it is left out without a session. Its regions are of the linearized localizer
    whatever the runs' own is, of the first run's size.
    """
    rows, bootstrapped = [], set[str]()
    for (task, localizer, _), group in _groups(runs).items():
        for source, own in ((MASK, _by(group, "seed")), (DATA, _by(group, "data_seed"))):
            if len(own) > 1:
                regions = [run.region() for run in own]
                rows.append(row(task, source, localizer, regions, stability(regions)))
        if session is not None and task not in bootstrapped:
            bootstrapped.add(task)
            regions = resampled(session, group[0])
            rows.append(row(task, BOOTSTRAP, "linearized", regions, stability(regions)))
    return rows


def resampled(session: Session, run: Run) -> list[Region]:
    """The linearized regions of bootstrap samples of the run's training examples, of the run's size."""
    from skillviz.core.localizers.linearized import LinearizedOptions
    from skillviz.core.stability import bootstrap_regions

    pair, encoded = session.pair(run.spec), session.encoded(run.spec)
    problem, options = pair.problem(encoded["train"]), LinearizedOptions(examples=EXAMPLES)
    return list(bootstrap_regions(problem, run.record.size or 1, resamples=RESAMPLES, options=options).regions)


def row(task: str, source: str, localizer: str, regions: Sequence[Region], found: Stability) -> dict[str, Any]:
    """A row of the table `stability`."""
    size = sum(region.size for region in regions) / len(regions)
    return {
        "task": task, "source": source, "localizer": localizer, "size": size, "share": size / regions[0].d,
        "iou": found.iou, "low": found.low, "high": found.high, "chance": found.chance, "pairs": found.pairs,
    }  # fmt: skip


def _groups(runs: Iterable[Run]) -> Mapping[tuple[str, str, tuple[str, ...]], list[Run]]:
    """The runs that differ in their seeds only, by task, localizer and sizes asked for."""
    found: dict[tuple[str, str, tuple[str, ...]], list[Run]] = {}
    for run in runs:
        name = run.record.task.name if run.record.task else run.spec.task
        found.setdefault((name, run.spec.localizer, run.spec.sizes), []).append(run)
    return found


def _by(group: Iterable[Run], seed: str) -> list[Run]:
    """One run for each value of this seed, the other one as in the first run, on the same fine-tuned model."""
    runs = list(group)
    first, other = runs[0].spec, {"seed": "data_seed", "data_seed": "seed"}[seed]
    found: dict[int, Run] = {}
    for run in runs:
        same = getattr(run.spec, other) == getattr(first, other)
        if same and (seed == "data_seed" or run.spec.finetuned == first.finetuned):
            found.setdefault(getattr(run.spec, seed), run)
    return list(found.values())
