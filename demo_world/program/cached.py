"""The runs that ship: which localizations of the demo pairs are made beforehand.

Every run is scored on the partner of its task too, the same skill in a shifted domain; the WiSE grid is made for each
pair's stagewise run, and for top movement on the main pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skillviz.runs.produce import produce
from skillviz.runs.progress import Report, silent
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.tasks.demo_world import MAIN, PairEntry, World

SIZES = ("3%", "0.1%", "1%")
MAIN_SIZES = ("3%", "0.03%", "0.1%", "0.3%", "1%")
LEARNED: dict[str, Any] = {"steps": 50, "batch_size": 256}
FEW_SIZES = ("1%", "0.3%", "3%")
"""Of a model of few examples. It has no grid of paths: that would be 4,000 sentences at every point."""
WITH_RANDOM = (MAIN, "news-topic", "news-topic-64")
WITH_LEARNED = (MAIN, "news-topic")


def specs(world: World, seed: int) -> list[RunSpec]:
    """The runs in the order in which they are made: the main pair's first."""
    pairs = sorted(world.pairs, key=lambda pair: pair.name != MAIN)
    return [spec for pair in pairs for spec in _of_pair(pair, world, seed)]


def _of_pair(pair: PairEntry, world: World, seed: int) -> Iterator[RunSpec]:
    sizes = FEW_SIZES if pair.k_shot else MAIN_SIZES if pair.name == MAIN else SIZES
    task = world.task(pair.task)
    others = (world.task(task.partner).file,) if task.partner else ()
    common: dict[str, Any] = {"base": pair.base, "finetuned": pair.finetuned, "task": task.file, "others": others,
              "readout": pair.readout, "seed": seed, "device": "cpu"}  # fmt: skip
    if pair.k_shot:
        common |= {"k_shot": pair.k_shot, "data_seed": seed}
    yield RunSpec(**common, localizer="stagewise", sizes=sizes, interpolation=not pair.k_shot)
    if others or pair.name in WITH_RANDOM:
        yield RunSpec(**common, localizer="movement", sizes=sizes, interpolation=pair.name == MAIN)
    if pair.name in WITH_RANDOM:
        yield RunSpec(**common, localizer="random", sizes=sizes)
    if pair.name in WITH_LEARNED:
        yield RunSpec(**common, localizer="learned", **LEARNED)


def make_runs(world: World, store: Store, seed: int, progress: Report = silent) -> Iterator[tuple[int, int, str]]:
    """Makes the runs that are not there yet; yields (number from 1, how many, run id) of each.

    Runs of the same specs whose models have other weights by now are deleted: they are of an earlier world.
    """
    wanted, session = specs(world, seed), Session()
    fingerprints = {(pair.base_fingerprint, pair.finetuned_fingerprint) for pair in world.pairs}
    stored = {}
    for run in store.list():
        models_of = tuple(model.fingerprint for model in (run.record.base, run.record.finetuned) if model)
        if models_of in fingerprints:
            stored[run.record.key] = run.id
        elif run.record.key in {spec.key() for spec in wanted}:
            store.delete(run.id)
    for number, spec in enumerate(wanted, start=1):
        yield number, len(wanted), stored.get(spec.key()) or produce(spec, store, progress, session).id
