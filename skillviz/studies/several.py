"""Regions of a model of several tasks, each scored on every task: what tables of overlap and gain are made from.

A member of several tasks is one body; `<member>/<task>` is an ordinary folder with that task's head. Any region of
that body (one task's, a union, a purified one) can be grafted for any of the tasks. Logits are kept beside the runs
under what they depend on, so that a study that was cut off does not score twice.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skillviz.analysis.seeds import seeds_drawn
from skillviz.core.intervals import Interval, percentile_interval, relative_gain, resampled_values
from skillviz.core.metrics import statistic
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.runs.disk_cache import DiskCache
from skillviz.runs.metrics import positive
from skillviz.runs.provenance import task_note
from skillviz.runs.record import TaskNote
from skillviz.runs.spec import RunSpec
from skillviz.tasks.definition import definition

if TYPE_CHECKING:
    from skillviz.runs.session import Session

FOLDER, MOST_BYTES = ".several", 2**30
RESAMPLES = 1000
BASE, MEMBER = "pretrained", "finetuned"


@dataclass(frozen=True)
class Chosen:
    """Regions to be scored, one a mask seed: `of` are the tasks whose regions they unite."""

    label: str
    of: tuple[str, ...]
    regions: tuple[Region, ...]
    purified: bool = False


@dataclass(frozen=True)
class Scored:
    """One task: labels [n] of its unseen test examples; logits [n, label] of the base, the member and each graft."""

    task: TaskNote
    labels: np.ndarray
    base: np.ndarray
    member: np.ndarray
    grafts: Mapping[tuple[str, bool], tuple[np.ndarray, ...]] = field(default_factory=dict)


def scored(
    session: Session,
    spec: RunSpec,
    chosen: Sequence[Chosen],
    seen: frozenset[str],
    store: Path,
    heard: Callable[[str], None] = lambda text: None,
) -> Scored:
    """The spec's task scored at the base, at the member and at each of the chosen regions, on the examples not `seen`.

    `spec` names the base and the member's folder of the task. Raises BadInput where no example is left.
    """
    encoded = session.encoded(spec).get("test")
    if encoded is None:
        raise BadInput(f"the task '{spec.task}' has no test examples, so no region can be scored on it.")
    rows = np.array([row for row, name in enumerate(encoded.ids) if name not in seen], dtype=np.int64)
    if not len(rows):
        raise BadInput(f"every test example of '{spec.task}' stands in another task's training data; none is left.")
    readout, common = session.preflight(spec).readout, members_of(session, spec)
    task = task_note(session.task(spec), session.splits(spec), readout)

    def logits(state: str, region: Region | None = None) -> np.ndarray:
        from skillviz.models.predict import predict  # imports torch

        which = {**common, "state": state, "region": None if region is None else digest(region)}
        return cached(store, which, lambda: predict(session.pair(spec), encoded, state, region))[rows]

    base, member = logits(BASE), logits(MEMBER)
    grafts = {}
    for one in chosen:
        heard(f"{task.name}: the region of {one.label}")
        grafts[one.label, one.purified] = tuple(logits("grafted", region) for region in one.regions)
    return Scored(task, encoded.labels[rows], base, member, grafts)


def mean_relative_gain(scored: Scored, graft: Sequence[np.ndarray]) -> Interval:
    """Eq. 5 of the mean over mask seeds, with a paired bootstrap interval over examples and seeds.

    (P_graft - P_base) / (P_member - P_base) in the task's metric; NaN where the member gains nothing. Resamples in
    which it gains nothing are left out.
    """
    one = positive(scored.task)
    of = [
        statistic(scored.task.metric, np.asarray(z, np.float64), scored.labels, one)
        for z in (scored.base, scored.member, *graft)
    ]
    n = len(scored.labels)
    whole = [float(f(np.ones((1, n)))[0]) for f in of]
    base, member, *values = resampled_values(of, n, RESAMPLES, 0)
    mean = seeds_drawn(np.stack(values), np.random.default_rng(1))
    value = relative_gain(np.mean(whole[2:]), whole[0], whole[1])
    return percentile_interval(float(value), relative_gain(mean, base, member))


def unions(tasks: Sequence[str], families: Mapping[str, str], most: int = 4) -> list[tuple[str, ...]]:
    """Which tasks' regions are united: every set of two or more where there are few tasks.

    With more than `most`: the families of two or more tasks, every related pair that is not one, and all tasks.
    """
    if len(tasks) <= most:
        return [s for size in range(2, len(tasks) + 1) for s in itertools.combinations(tasks, size)]
    groups = {family: tuple(t for t in tasks if families.get(t) == family) for family in families.values()}
    several_tasks = [group for group in groups.values() if len(group) > 1]
    pairs = [pair for group in several_tasks for pair in itertools.combinations(group, 2)]
    return list(dict.fromkeys([*several_tasks, *pairs, tuple(tasks)]))


def digest(region: Region) -> str:
    """sha256 of a region's entries."""
    return hashlib.sha256(np.ascontiguousarray(region.flat(), dtype="<i8").tobytes()).hexdigest()


def members_of(session: Session, spec: RunSpec) -> dict[str, object]:
    """What tells a pair and what it is asked from any other: fingerprints of models and data, the task's definition."""
    check, splits = session.preflight(spec), session.splits(spec)
    members = [check.base.fingerprint, check.finetuned.fingerprint]
    return {
        "members": members, "dtype": spec.dtype, "readout": check.readout, "data": splits.fingerprint,
        "definition": definition(session.task(spec), check.readout),
    }  # fmt: skip


def cached(
    store: Path, which: Mapping[str, object], make: Callable[[], np.ndarray], dtype: str = "float32"
) -> np.ndarray:
    """The array for what it depends on, from the cache beside the runs; made where it is not there."""
    return DiskCache(store / FOLDER, MOST_BYTES).array(which, make, dtype)
