"""Regions of one model of several tasks: their overlap, their unions, and the gain of each on every task.

A model of several tasks is one body; `<model>/<task>` is an ordinary folder with that task's head. Any region of that
body (one task's, a union, a purified one) can be grafted for any of the tasks. Logits and purified unions are cached
beside the runs under a key of their inputs, so that an interrupted study does not make them twice.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import or_, sub
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillviz.analysis import overlaps
from skillviz.core.draws import MATCHED, control_of, uniform
from skillviz.core.intervals import Interval, percentile_interval, relative_gain, whole_and_resampled
from skillviz.core.localizers.table import EXPRESSION
from skillviz.core.metrics import metric_row, statistic
from skillviz.core.region import Region, offsets
from skillviz.core.seeds_interval import mean_of_intervals
from skillviz.errors import BadInput
from skillviz.models.finetune.recipes import MULTI_TASK
from skillviz.runs.disk_cache import DiskCache
from skillviz.runs.metrics import positive
from skillviz.runs.provenance import task_note
from skillviz.runs.record import TaskNote
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.studies.finetuned_model import folder_of, task_name
from skillviz.studies.results import Results
from skillviz.tasks import registry
from skillviz.tasks.definition import definition
from skillviz.tasks.leaks import Unseen, unseen
from skillviz.tasks.readable_names import family

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.core.problem import Problem
    from skillviz.runs.session import Session

FOLDER, MOST_BYTES = ".several", 2**30
BATCH = 64
BOOTSTRAPS, EXAMPLES = 8, 192
"""The number of bootstrap samples of a run's training examples, and their size, for searching regions again."""
CONTROLS = ("random", "movement")
BASE, FINETUNED = "pretrained", "finetuned"
JOINT = " + "
UNION, EXCLUSIVE, THINNED, RANDOM, TRAINED = "union", "exclusive", "thinned", "random", "trained"
"""The rows of a subset of tasks: the union of its regions; the union without the entries that regions of other tasks
also hold; without as many entries drawn at random; as many random entries in each tensor; a model of these tasks."""
Runs = Mapping[str, Mapping[int, Run]]
"""The runs of the regions: by task, then mask seed."""


def region_groups(results: Results) -> list[Runs]:
    """Return the runs whose regions are compared, one group per model, search and size, in the order of the study."""
    groups: dict[str, dict[str, dict[int, Run]]] = {}
    for run in _searched(results):
        runs = groups.setdefault(repr(_setting(results, run)), {})
        runs.setdefault(run.record.task_name, {}).setdefault(run.spec.seed, run)
    return [{task: dict(sorted(by_seed.items())) for task, by_seed in runs.items()} for runs in groups.values()]


def region_runs(results: Results) -> Runs:
    """Return the first of the groups, by task and mask seed; empty without a run."""
    return next(iter(region_groups(results)), {})


def regions_of(runs: Runs) -> dict[str, dict[int, Region]]:
    """Return the regions of the runs, by task and mask seed."""
    return {task: {seed: run.region() for seed, run in by_seed.items()} for task, by_seed in runs.items()}


def left_out(results: Results, runs: Runs) -> str:
    """Return a note if the study has regions that are not compared; otherwise empty text."""
    rest = len(_searched(results)) - sum(len(by_seed) for by_seed in runs.values())
    return f"{rest} runs of other models, data seeds, searches or sizes are not in these tables." if rest else ""


def _searched(results: Results) -> list[Run]:
    return [run for run in results.runs(recipe=MULTI_TASK) if run.spec.localizer not in (*CONTROLS, EXPRESSION)]


def _setting(results: Results, run: Run) -> tuple[Any, ...]:
    """Return the settings that compared regions share."""
    spec = run.spec
    model = results.entry(run).get("finetuned_key"), spec.base, spec.data_seed
    return *model, spec.localizer, spec.sizes, spec.search_fields()


def overlap_and_notes(results: Results) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """`overlap` and `isolation` of the regions of a model of several tasks, with notes; nothing without two regions."""
    runs = region_runs(results)
    regions = regions_of(runs)
    # a size that is an outcome may be zero
    if len(regions) < 2 or not all(region.size for by_seed in regions.values() for region in by_seed.values()):
        return {}, []
    rest = left_out(results, runs)
    tables = {"overlap": overlaps.overlap(regions), "isolation": overlaps.isolation(regions)}
    return tables, [f"Overlap and isolation: {rest}"] if rest else []


def unions(tasks: Sequence[str], families: Mapping[str, str], most: int = 4) -> list[tuple[str, ...]]:
    """Return the groups of tasks whose regions are united: every set of two or more, if there are at most `most` tasks.

    With more tasks: the families of two or more tasks, every related pair that is not a family, and all tasks.
    """
    if len(tasks) <= most:
        return [s for size in range(2, len(tasks) + 1) for s in itertools.combinations(tasks, size)]
    groups = {family: tuple(t for t in tasks if families.get(t) == family) for family in families.values()}
    of_family = [group for group in groups.values() if len(group) > 1]
    pairs = [pair for group in of_family for pair in itertools.combinations(group, 2)]
    return list(dict.fromkeys([*of_family, *pairs, tuple(tasks)]))


def is_purified(group: Sequence[str], tasks: Sequence[str]) -> bool:
    """True for whole families, and for all tasks together."""
    one_family = {family(task) for task in group}
    whole = {task for task in tasks if family(task) in one_family}
    return len(group) == len(tasks) or (len(one_family) == 1 and whole == set(group))


@dataclass(frozen=True)
class TaskUnion:
    """The union of some tasks' regions, or one task's region, for every mask seed."""

    label: str
    tasks: tuple[str, ...]
    regions: tuple[Region, ...]
    purified: bool = False
    what: str = UNION


def subset_unions(regions: Mapping[str, Mapping[int, Region]]) -> list[TaskUnion]:
    """Return for each subset of the tasks, one task included, its union and the regions that it is compared with.

    The union is compared with random regions of as many entries in each tensor: they need no search, and a search of
    shuffled movements would have to be made for every task and seed. Without the entries of other tasks' regions it is
    compared with the union without as many of its entries, drawn at random. Only mask seeds that every task has count.
    """
    seeds = sorted(set.intersection(*map(set, regions.values())))
    groups = [*((task,) for task in regions), *unions(list(regions), {task: family(task) for task in regions})]
    made = []
    for group in groups if seeds else []:
        whole = [reduce(or_, (regions[task][seed] for task in group)) for seed in seeds]
        rest = [[regions[task][seed] for task in regions if task not in group] for seed in seeds]
        kinds = {UNION: whole, RANDOM: [random_like(one, seed) for one, seed in zip(whole, seeds, strict=True)]}
        if len(group) < len(regions):
            kinds[EXCLUSIVE] = [reduce(sub, others, one) for one, others in zip(whole, rest, strict=True)]
            kinds[THINNED] = [
                thinned(one, own.size, seed) for one, own, seed in zip(whole, kinds[EXCLUSIVE], seeds, strict=True)
            ]
        made += [
            TaskUnion(f"{JOINT.join(group)}, {what}", group, tuple(of), what=what) for what, of in kinds.items()
        ]  # fmt: skip
    return made


def random_like(region: Region, seed: int) -> Region:
    """Return a random region with as many entries in each tensor."""
    return control_of(region, MATCHED, offsets(region.shapes), seed)


def thinned(region: Region, size: int, seed: int) -> Region:
    """Return `size` of the region's entries, drawn at random."""
    return Region.from_flat(region.flat()[uniform(region.size, size, seed)], region.shapes)


@dataclass(frozen=True)
class TaskScores:
    """A task's labels [n] for its unseen test examples; logits [n, label] of base, fine-tuned model and each graft."""

    task: TaskNote
    labels: np.ndarray
    base: np.ndarray
    finetuned: np.ndarray
    grafts: Mapping[tuple[str, bool], tuple[np.ndarray, ...]] = field(default_factory=dict)


def scored(
    session: Session,
    spec: RunSpec,
    unions: Sequence[TaskUnion],
    leaked: frozenset[str],
    store: Path,
) -> TaskScores:
    """Return the task's scores at the base, fine-tuned, and at each union's regions, on the examples not `leaked`.

    `spec` names the base and the fine-tuned model's folder of the task. Raises BadInput if no example is left.
    """
    encoded = session.encoded(spec).get("test")
    if encoded is None:
        raise BadInput(f"the task '{spec.task}' has no test examples, so no region can be scored on it.")
    rows = np.array([row for row, name in enumerate(encoded.ids) if name not in leaked], dtype=np.int64)
    if not len(rows):
        raise BadInput(f"every test example of '{spec.task}' is also in another task's training data; none is left.")
    readout, common = session.preflight(spec).readout, pair_key(session, spec)
    task = task_note(session.task(spec), session.splits(spec), readout)

    def logits(state: str, region: Region | None = None) -> np.ndarray:
        from skillviz.models.predict import predict  # imports torch

        which = {**common, "state": state, "region": None if region is None else region_digest(region)}
        return cached(store, which, lambda: predict(session.pair(spec), encoded, state, region))[rows]

    base, finetuned = logits(BASE), logits(FINETUNED)
    grafts = {
        (union.label, union.purified): tuple(logits("grafted", region) for region in union.regions) for union in unions
    }
    return TaskScores(task, encoded.labels[rows], base, finetuned, grafts)


def scored_tasks(
    results: Results, runs: Runs, unions: Sequence[TaskUnion], left: Mapping[str, Unseen]
) -> dict[str, TaskScores]:
    """Return the scores of each task of the runs without its examples in `left`, as `scored` computes them."""
    first = {task: next(iter(by_seed.values())).spec for task, by_seed in runs.items()}
    return {
        task: scored(results.session, spec, unions, left[task].leaked, results.store.root)
        for task, spec in first.items()
    }


def mean_relative_gain(scored: TaskScores, graft: Sequence[np.ndarray]) -> Interval:
    """Return Eq. 5 for the mean over mask seeds, with its interval over examples and seeds.

    (P_graft - P_base) / (P_ft - P_base) in the task's metric; NaN if the model gains nothing. The part of the examples
    is a paired bootstrap of the mean, without resamples in which the model gains nothing.
    """
    one = positive(scored.task)
    of = [
        statistic(scored.task.metric, np.asarray(z, np.float64), scored.labels, one)
        for z in (scored.base, scored.finetuned, *graft)
    ]
    merit = metric_row(scored.task.metric).merit
    drawn_of = whole_and_resampled(of, len(scored.labels))
    base, finetuned, *grafts = ((merit(value), merit(draws)) for value, draws in drawn_of)
    by_seed = relative_gain([value for value, _ in grafts], base[0], finetuned[0])
    drawn = relative_gain(np.mean([draws for _, draws in grafts], axis=0), base[1], finetuned[1])
    examples = percentile_interval(float(by_seed.mean()), drawn)
    if not np.isfinite(examples.value):
        return examples
    # without ends no resample differs, and only the seeds do
    down, up = np.nan_to_num([examples.value - examples.low, examples.high - examples.value])
    over = mean_of_intervals(by_seed, by_seed - down, by_seed + up)
    return Interval(over.value, over.low, over.high)


def leaks_of(runs: Runs) -> dict[str, Unseen]:
    """Return the test examples of each task that occur in the other tasks' training data."""
    specs = [next(iter(by_seed.values())).spec for by_seed in runs.values()]
    return unseen([registry.task(spec.task, "task") for spec in specs])


def gain_rows(scored: Mapping[str, TaskScores], unions: Sequence[TaskUnion]) -> list[dict[str, Any]]:
    """Return one row per region and task: relative gain (Eq. 5), mean over mask seeds."""
    return [
        {
            "region": one.label, "region_tasks": one.tasks, "task": task, "purified": one.purified,
            **gain_of(of_task, of_task.grafts[one.label, one.purified]),
        }
        for one in unions
        for task, of_task in scored.items()
    ]  # fmt: skip


def subset_rows(
    scored: Mapping[str, TaskScores],
    unions: Sequence[TaskUnion],
    trained: Mapping[tuple[str, ...], Mapping[str, np.ndarray]],
) -> list[dict[str, Any]]:
    """Return the rows of `subsets`: relative gain (Eq. 5) of every union, and of the models trained on a subset.

    `trained` are logits by the subset and the task, on the same examples as `scored`.
    """
    rows = [
        {
            "region_tasks": one.tasks, "task": task, "what": one.what,
            "size": float(np.mean([region.size for region in one.regions])),
            **gain_of(of_task, of_task.grafts[one.label, one.purified]),
        }
        for one in unions
        for task, of_task in scored.items()
    ]  # fmt: skip
    return rows + [
        {"region_tasks": group, "task": task, "what": TRAINED, "size": np.nan, **gain_of(scored[task], [logits])}
        for group, by_task in trained.items()
        for task, logits in by_task.items()
    ]


def gain_of(scored: TaskScores, grafts: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return value, low, high, n and seeds of the relative gain of these grafts."""
    gain = mean_relative_gain(scored, grafts)
    return {
        "value": gain.value, "low": gain.low, "high": gain.high, "n": len(scored.labels), "seeds": len(grafts),
    }  # fmt: skip


def trained_on_subsets(results: Results, runs: Runs, left: Mapping[str, Unseen]) -> dict[Any, Any]:
    """Return logits of the study's models of fewer tasks than the regions' model, by their tasks, then the task.

    They are of the same examples as `scored`. A model that is not finished is left out.
    """
    found: dict[tuple[str, ...], dict[str, np.ndarray]] = {}
    for model in results.plan.finetuned:
        group = tuple(map(task_name, model.tasks))
        if set(group) < set(runs) and group not in found and folder_of(model).is_dir():
            specs = {task: next(iter(runs[task].values())).spec for task in group}
            found[group] = {
                task: scored(
                    results.session, spec.model_copy(update={"finetuned": model.path(spec.task)}), [],
                    left[task].leaked, results.store.root,
                ).finetuned
                for task, spec in specs.items()
            }  # fmt: skip
    return found


@dataclass
class TaskSessions:
    """The tasks of one model, each with its own head and training examples; all stay loaded for their gradients.

    `specs` are by task.
    """

    specs: Mapping[str, RunSpec]
    store: Path
    sessions: dict[str, Session] = field(default_factory=dict)

    def purified(self, tasks: Sequence[str], union: Region, seed: int) -> Region:
        """Return the union of these tasks' regions after a few mask steps on the sum of their losses."""
        from skillviz.core.other_regions import PurifyOptions, purify  # imports torch

        options = PurifyOptions(batch_size=BATCH)
        which = {
            "purified": asdict(options), "seed": seed, "union": region_digest(union),
            "tasks": [pair_key(self._session(task), self.specs[task]) for task in tasks],
        }  # fmt: skip

        def make() -> np.ndarray:
            return purify([self._problem(task) for task in tasks], union, seed=seed, options=options).region.flat()

        return Region.from_flat(cached(self.store, which, make, "int64"), union.shapes)

    def _problem(self, task: str) -> Problem:
        session, spec = self._session(task), self.specs[task]
        return session.pair(spec).problem(session.encoded(spec)["train"])

    def _session(self, task: str) -> Session:
        from skillviz.runs.session import Session  # imports torch

        return self.sessions.setdefault(task, Session())


def region_digest(region: Region) -> str:
    """Return the sha256 of a region's entries."""
    return hashlib.sha256(np.ascontiguousarray(region.flat(), dtype="<i8").tobytes()).hexdigest()


def pair_key(session: Session, spec: RunSpec) -> dict[str, object]:
    """Return the cache key of a pair and its task: fingerprints of models and data, and the task's definition."""
    check, splits = session.preflight(spec), session.splits(spec)
    models = [check.base.fingerprint, check.finetuned.fingerprint]
    return {
        "models": models, "dtype": spec.dtype, "readout": check.readout, "data": splits.fingerprint,
        "definition": definition(session.task(spec), check.readout),
    }  # fmt: skip


def cached(
    store: Path, which: Mapping[str, object], make: Callable[[], np.ndarray], dtype: str = "float32"
) -> np.ndarray:
    """Return the array of this key from the cache beside the runs; it is made if it is missing."""
    return DiskCache(store / FOLDER, MOST_BYTES).array(which, make, dtype)
