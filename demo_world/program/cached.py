"""The runs that ship: which localizations of the demo pairs are made beforehand.

Most runs are scored on the partner of their task too, the same skill in a shifted domain; the WiSE grid is made for
the stagewise run of each task, and for top movement on films.
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
FILM, TOPIC = "film-sentiment", "news-topic"
FINER = ("3%", "0.03%", "0.1%", "0.3%", "1%")
MAIN_SIZES = ("1%", "0.03%", "0.1%", "0.3%")
"""Of the main pair. The first brings its skill back; only that run has paths, of 4,000 sentences at every point."""
SMALLER = ("0.1%", "0.03%", "0.3%")
MASK_SEEDS = (1, 2)
"""Further seeds of the main pair's search, for how steady its region is."""
LEARNED: dict[str, Any] = {"steps": 50, "batch_size": 256}


def specs(world: World, seed: int) -> list[RunSpec]:
    """The runs in the order in which they are made: the main pair's first."""
    pairs = sorted(world.pairs, key=lambda pair: pair.name != MAIN)
    return [spec for pair in pairs for spec in _of_pair(pair, world, seed)]


def _of_pair(pair: PairEntry, world: World, seed: int) -> Iterator[RunSpec]:
    task = world.task(pair.task)
    others = (world.task(task.partner).file,) if task.partner else ()
    common: dict[str, Any] = {"base": pair.base, "finetuned": pair.finetuned, "task": task.file,
              "readout": pair.readout, "seed": seed, "device": "cpu"}  # fmt: skip
    if pair.k_shot:
        common |= {"k_shot": pair.k_shot, "data_seed": seed}
    if pair.name == MAIN:
        yield from _of_main(common | {"others": others})
    elif pair.k_shot:  # the main pair's twin: its main size alone, on its own test set
        yield from (RunSpec(**common, localizer=name, sizes=MAIN_SIZES[:1]) for name in ("stagewise", "movement"))
    else:
        sizes = FINER if pair.name == FILM else SIZES
        common |= {"others": others}
        yield RunSpec(**common, localizer="stagewise", sizes=sizes, interpolation=True)
        if others or pair.name == TOPIC:
            yield RunSpec(**common, localizer="movement", sizes=sizes, interpolation=pair.name == FILM)
        if pair.name in (FILM, TOPIC):
            yield RunSpec(**common, localizer="random", sizes=sizes)
            yield RunSpec(**common, localizer="learned", **LEARNED)


def _of_main(common: dict[str, Any]) -> Iterator[RunSpec]:
    """What the tour shows, top movement and a random region to compare with, and the search with other seeds."""
    yield RunSpec(**common, localizer="stagewise", sizes=MAIN_SIZES[:1], interpolation=True)
    own = common | {"others": ()}
    yield RunSpec(**own, localizer="stagewise", sizes=SMALLER)
    for localizer in ("movement", "random"):
        yield RunSpec(**common, localizer=localizer, sizes=MAIN_SIZES)
    for seed in MASK_SEEDS:
        yield RunSpec(**own | {"seed": seed}, localizer="stagewise", sizes=MAIN_SIZES[:1])


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
